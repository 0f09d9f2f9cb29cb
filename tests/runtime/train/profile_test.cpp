// The traces of whole runs, read with another JSON reader.

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "runtime/train/profile.h"
#include "runtime/report/trace.h"
#include "tests/catch.h"
#include "tests/runtime/a_run.h"

using namespace muster;
using namespace muster::test;

namespace {

struct Event {
  std::string name;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  nlohmann::json arguments;
  std::vector<std::string> around;  // names of the spans that it lies in, from the outermost
};

std::int64_t ns(const nlohmann::json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

std::map<int, std::vector<Event>> events_by_rank(const nlohmann::json& trace) {
  std::map<int, std::vector<Event>> ranks;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const std::int64_t begin = ns(event.at("ts"));
    ranks[event.at("pid").get<int>()].push_back(
        {event.at("name"), begin, begin + ns(event.at("dur")), event.at("args"), {}});
  }
  return ranks;
}

// Sorts by begin, finds the parents, and checks that no two spans cross.
void nest(std::vector<Event>& events) {
  std::ranges::stable_sort(events, [](const Event& a, const Event& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::vector<const Event*> open;
  for (Event& event : events) {
    while (!open.empty() && open.back()->end_ns <= event.begin_ns) open.pop_back();
    if (!open.empty()) CHECK(event.end_ns <= open.back()->end_ns);
    for (const Event* parent : open) event.around.push_back(parent->name);
    open.push_back(&event);
  }
}

std::size_t count(const std::vector<Event>& events, const std::string& name) {
  return static_cast<std::size_t>(
      std::ranges::count_if(events, [&](const Event& event) { return event.name == name; }));
}

ARun profiled(const Folder& folder, std::size_t ranks) {
  ARun run{folder / "out", ranks};
  return run.with([&](TrainOptions& options) {
    options.shape.layers = 3;
    options.profile = folder / "trace.json";
    options.profile_steps = StepRange{4, 5};
  });
}

nlohmann::json trace_in(const std::string& file) {
  return nlohmann::json::parse(content_of(file));
}

}  // namespace

TEST_CASE("a profile holds the steps that were asked for, of every rank, span within span") {
  Folder folder;
  for (const ZeroStage stage : {ZeroStage::nothing, ZeroStage::weights}) {
    const ARun run = profiled(folder, 2).with([&](TrainOptions& options) { options.zero = stage; });
    REQUIRE(run.go() == "0");
    const nlohmann::json trace = trace_in(folder / "trace.json");
    CHECK(trace.at("distributedInfo").at("world_size") == 2);
    auto ranks = events_by_rank(trace);
    REQUIRE(ranks.size() == 2);
    for (auto& [rank, events] : ranks) {
      nest(events);
      CHECK(count(events, "ProfilerStep#3") == 0);
      CHECK(count(events, "ProfilerStep#4") == 1);
      CHECK(count(events, "ProfilerStep#5") == 1);
      CHECK(count(events, "ProfilerStep#6") == 0);
      CHECK(count(events, "data wait") == 2);
      CHECK(count(events, "optimizer") == 2);
      CHECK(count(events, "wait: losses and norms of all ranks") == 2);
      // Eight leaves on two ranks: four passes through three layers in each of two steps.
      CHECK(count(events, "forward") == 8);
      CHECK(count(events, "backward") == 8);
      CHECK(count(events, "layer forward") == 24);
      CHECK(count(events, "layer backward") == 24);
      CHECK(count(events, "wait: reduce-scatter of a bucket") >= 2);
      CHECK(count(events, "wait: all-gather of a bucket") >= 2);
      for (const Event& event : events) {
        if (event.name.starts_with("ProfilerStep")) {
          CHECK(event.around.empty());
          continue;
        }
        REQUIRE_FALSE(event.around.empty());
        CHECK(event.around.front().starts_with("ProfilerStep"));
        if (event.name == "layer forward") CHECK(event.around.back() == "forward");
        if (event.name == "layer backward") CHECK(event.around.back() == "backward");
      }
    }
  }
}

TEST_CASE("a profile names its ranks, and says how exact their clocks are") {
  Folder folder;
  REQUIRE(profiled(folder, 3).go() == "0");
  const nlohmann::json trace = trace_in(folder / "trace.json");
  std::set<std::string> names;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "process_name") {
      names.insert(event.at("args").at("name").get<std::string>().substr(0, 9));
    }
  }
  CHECK(names == std::set<std::string>{"rank 0 on", "rank 1 on", "rank 2 on"});
  const auto& other = trace.at("otherData");
  for (int r = 0; r < 3; ++r) {
    CHECK(other.at("dropped_spans").at(r) == 0);
    // Threads of one process have one clock.
    CHECK(std::abs(other.at("clock_ahead_us").at(r).get<double>()) <=
          other.at("clock_error_us").at(r).get<double>() + 1);
  }
}

TEST_CASE("checkpoints have spans, and a profile changes no bit") {
  Folder folder;
  const ARun run = profiled(folder, 2).with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / "checkpoints";
    options.checkpoint_every = 4;
  });
  REQUIRE(run.go() == "0");
  auto ranks = events_by_rank(trace_in(folder / "trace.json"));
  CHECK(count(ranks.at(0), "checkpoint") >= 2);
  ARun plain{folder / "plain", 2};
  plain.options.shape.layers = 3;
  REQUIRE(plain.go() == "0");
  CHECK(run.weights() == plain.weights());
}

TEST_CASE("a directory gets a file that the profiler plug-in of TensorBoard looks for") {
  Folder folder;
  const ARun run = profiled(folder, 1).with([&](TrainOptions& options) {
    options.profile = folder / "traces/";
    options.profile_steps.reset();
    options.steps = 3;
  });
  REQUIRE(run.go() == "0");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "traces")) {
    files.push_back(entry.path());
  }
  REQUIRE(files.size() == 1);
  CHECK(files[0].ends_with(".pt.trace.json"));
  CHECK(count(events_by_rank(trace_in(files[0])).at(0), "ProfilerStep#1") == 1);
}

TEST_CASE("a profile that cannot be written is refused before the first step, on all ranks") {
  Folder folder;
  const ARun run = profiled(folder, 2).with(
      [&](TrainOptions& options) { options.profile = "/proc/none/trace.json"; });
  CHECK_THAT(run.go(), ContainsSubstring("--profile: cannot write /proc/none/trace.json"));
}

TEST_CASE("of the answers about a clock the quickest counts") {
  // The other clock is 1000 ahead; a round trip takes 10 + 10, once 10 + 490.
  const ClockAnswer answers[] = {{0, 1010, 500}, {600, 1610, 620}, {700, 1740, 800}};
  const RankClock offset = offset_of(answers);
  CHECK(offset.ahead_ns == 1000);
  CHECK(offset.error_ns <= 11);
}
