#include "launcher/agent/metric_sources/output_patterns.h"

#include <algorithm>
#include <utility>

#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t line_bytes = 4096;
// Not sent yet: five seconds of 10,000 a second.
constexpr std::size_t printed_limit = 50'000;
// A fifth of the agent's time, saved up for one second: a line takes some microseconds.
constexpr int time_share = 5;
constexpr std::chrono::milliseconds most_time{200};

void take_map(std::string_view line, std::vector<MetricPoint>& points) {
  static const auto pair = Pattern::compile(R"('(?P<name>[^']+)': '?(?P<number>[-+.\w]+))");
  if (!trimmed(line).starts_with("{'")) return;
  for (auto found = pair->named_in(line); !found.empty(); found = pair->named_in(line)) {
    const std::string_view number = found.at("number");
    const auto value = value_of(number);
    if (value) points.push_back(SourceFile{}.point(found.at("name"), *value, {}));
    line.remove_prefix(static_cast<std::size_t>(number.data() - line.data()) + number.size());
  }
}

}  // namespace

void OutputPatterns::set(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    auto pattern = Pattern::compile(text);
    reads_maps_ |= text == "hf";
    if (pattern && text != "hf") patterns_.push_back(std::move(*pattern));
  }
}

void OutputPatterns::take(RankId rank, std::int64_t offset, std::string_view bytes) {
  if (patterns_.empty() && !reads_maps_) return;
  Printed& printed = printed_[rank];
  const std::int64_t known = std::clamp<std::int64_t>(printed.seen - offset, 0, std::ssize(bytes));
  printed.seen = std::max(printed.seen, offset + std::ssize(bytes));
  bytes.remove_prefix(static_cast<std::size_t>(known));
  const auto began = Clock::now();
  left_ = std::min<Clock::duration>(left_ + (began - asked_at_) / time_share, most_time);
  asked_at_ = began;
  bool has_time = left_ > Clock::duration{0} && look_.lines.size() < printed_limit;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\r\n");  // a progress bar ends in the former
    const std::string_view part = bytes.substr(0, end);
    printed.line.append(part.substr(0, line_bytes - std::min(line_bytes, printed.line.size())));
    if (end == bytes.npos) break;
    bytes.remove_prefix(end + 1);
    if (has_time && !printed.line.empty()) take_line(rank, printed.line);
    printed.line.clear();
    has_time = has_time && Clock::now() - began < left_;
  }
  left_ -= Clock::now() - began;
  if (has_time || std::exchange(is_noted_, true)) return;
  look_.notes.push_back("metrics.regex: there is too much output to search all of it");
}

void OutputPatterns::take_line(RankId rank, std::string_view line) {
  std::vector<MetricPoint>& points = look_.points;
  std::optional<std::int64_t> step;
  if (reads_maps_) take_map(line, points);
  for (const Pattern& pattern : patterns_) {
    for (const auto& [name, text] : pattern.named_in(line)) {
      if (name == "step") step = read_integer(trimmed(text));
      const auto value = name == "step" ? std::nullopt : value_of(text);
      if (value) points.push_back(SourceFile{}.point(name, *value, {}));
    }
  }
  if (points.empty() && step) points.push_back({"step"});
  for (MetricPoint& point : points) {
    point.step = step;
    point.writer = std::to_string(rank.value);
  }
  look_.make_lines();
}

}  // namespace muster
