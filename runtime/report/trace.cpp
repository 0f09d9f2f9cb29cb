#include "runtime/report/trace.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/protocol/number_text.h"

namespace muster {
namespace {

struct KindText {
  const char* name;
  const char* category;
  const char* number;  // what it counts; none: nothing
};

// In the order of SpanKind; the last one is of what is none.
constexpr KindText span_texts[] = {
    {"ProfilerStep", "user_annotation", "step"},
    {"data wait", "data", nullptr},
    {"forward", "cpu_op", nullptr},
    {"layer forward", "cpu_op", "layer"},
    {"head and loss", "cpu_op", nullptr},
    {"backward", "cpu_op", nullptr},
    {"head backward", "cpu_op", nullptr},
    {"layer backward", "cpu_op", "layer"},
    {"embeddings backward", "cpu_op", nullptr},
    {"wait: reduce-scatter of a bucket", "communication", "transfer"},
    {"wait: all-gather of a bucket", "communication", "transfer"},
    {"wait: losses and norms of all ranks", "communication", nullptr},
    {"optimizer", "cpu_op", nullptr},
    {"checkpoint", "checkpoint", nullptr},
    {"?", "?", nullptr},
};
static_assert(std::size(span_texts) == static_cast<std::size_t>(SpanKind::checkpoint) + 2);

std::string microseconds(std::int64_t ns) {
  return printed("%lld.%03lld", static_cast<long long>(ns / 1000),
                 static_cast<long long>(ns % 1000));
}

std::string name_event(const char* what, std::size_t rank, const nlohmann::json& value) {
  return "{\"ph\":\"M\",\"pid\":" + std::to_string(rank) + ",\"tid\":0,\"name\":\"" + what +
         "\",\"args\":{\"" + (value.is_number() ? "sort_index" : "name") + "\":" + value.dump() +
         "}}";
}

std::string span_event(const TraceEntry& entry, std::size_t rank, std::int64_t begin_ns) {
  const auto kind = static_cast<std::size_t>(entry.kind);
  const KindText& text = span_texts[std::min(kind, std::size(span_texts) - 1)];
  const std::string number = std::to_string(entry.number);
  std::string event = "{\"ph\":\"X\",\"pid\":" + std::to_string(rank) + ",\"tid\":0,\"cat\":\"" +
                      text.category + "\",\"name\":\"" + text.name;
  if (entry.kind == SpanKind::step) event += "#" + number;
  event += "\",\"ts\":" + microseconds(begin_ns) +
           ",\"dur\":" + microseconds(std::max<std::int64_t>(0, entry.end_ns - entry.begin_ns));
  std::string arguments;
  if (text.number != nullptr) arguments = std::string("\"") + text.number + "\":" + number;
  if (entry.bytes > 0) {
    arguments +=
        std::string(arguments.empty() ? "" : ",") + "\"bytes\":" + std::to_string(entry.bytes);
  }
  return event + ",\"args\":{" + arguments + "}}";
}

std::string head(std::span<const RankTrace> ranks) {
  nlohmann::ordered_json head;
  head["schemaVersion"] = 1;
  head["distributedInfo"] = {{"backend", "muster"}, {"rank", 0}, {"world_size", ranks.size()}};
  head["deviceProperties"] = nlohmann::json::array();
  head["displayTimeUnit"] = "ms";
  nlohmann::ordered_json other;
  other["program"] = "muster-train";
  for (const RankTrace& rank : ranks) {
    other["dropped_spans"].push_back(rank.dropped);
    other["clock_ahead_us"].push_back(static_cast<double>(rank.ahead_ns) / 1000);
    other["clock_error_us"].push_back(static_cast<double>(rank.error_ns) / 1000);
  }
  head["otherData"] = other;
  std::string text = head.dump();
  text.pop_back();
  return text;
}

}  // namespace

std::string format_trace(std::span<const RankTrace> ranks) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const RankTrace& rank : ranks) {
    for (const TraceEntry& entry : rank.entries) {
      first = std::min(first, entry.begin_ns - rank.ahead_ns);
    }
  }
  std::string text = head(ranks) + ",\"traceEvents\":[";
  const char* between = "\n";
  const auto put = [&](const std::string& event) {
    text += between + event;
    between = ",\n";
  };
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    put(name_event("process_name", r, "rank " + std::to_string(r) + " on " + ranks[r].host));
    put(name_event("process_sort_index", r, r));
    put(name_event("thread_name", r, "training"));
    for (const TraceEntry& entry : ranks[r].entries) {
      put(span_event(entry, r, entry.begin_ns - ranks[r].ahead_ns - first));
    }
  }
  return text + "\n]}\n";
}

}  // namespace muster
