#include "health/fabric/counter_memory.h"
#include "health/fabric/judges.h"
#include "tests/catch.h"
#include "tests/health/fabric/fabric_samples.h"

using namespace muster;
using namespace muster::fabric_samples;
using namespace std::chrono_literals;

namespace {

constexpr std::chrono::milliseconds noon = 12h;

FabricErrors errors_of(std::uint64_t symbols) {
  FabricErrors errors;
  if (symbols > 0)
    errors.counters[n2_end] = {{"SymbolErrorCounter", symbols}, {"PortXmitData", 99}};
  errors.has_summary = true;
  return errors;
}
void run(FabricCounts& counts, std::uint64_t symbols, std::chrono::milliseconds at) {
  keep_count(counts, count_of(errors_of(symbols), linked_fabric(), at));
}
std::uint64_t symbols_before(const FabricCounts& counts, std::chrono::milliseconds at) {
  auto baseline = baseline_of(counts, errors_of(1000), at);
  REQUIRE(baseline);
  return baseline->errors.counters[n2_end]["SymbolErrorCounter"];
}

}  // namespace

TEST_CASE("the first count of a fabric has nothing to be compared with") {
  FabricCounts counts;
  CHECK_FALSE(baseline_of(counts, errors_of(1), noon));
  run(counts, 1, noon);
  CHECK_FALSE(baseline_of(counts, errors_of(1), noon));
  CHECK(baseline_of(counts, errors_of(1), noon + 1s)->age == 1s);
}

TEST_CASE("growth is judged over five minutes however often the counters are read") {
  FabricCounts counts;
  for (int s = 0; s <= 1800; s += 10) run(counts, static_cast<std::uint64_t>(s + 1), noon + s * 1s);
  CHECK(counts.size() <= 8);
  const auto baseline = baseline_of(counts, errors_of(2000), noon + 1810s);
  REQUIRE(baseline);
  CHECK(baseline->age >= 5min);
  CHECK(baseline->age <= 6min + 10s);
}

TEST_CASE("of hourly counts the last one is the baseline, and none is older than a day") {
  FabricCounts counts;
  for (int h = 0; h < 5; ++h) run(counts, static_cast<std::uint64_t>(h + 1), noon + h * 1h);
  CHECK(symbols_before(counts, noon + 5h) == 5);
  CHECK(counts.size() == 2);
  CHECK_FALSE(baseline_of(counts, errors_of(9), noon + 4h + 25h));
}

TEST_CASE("counts of a clock that was set back are dropped") {
  FabricCounts counts;
  run(counts, 7, noon);
  run(counts, 8, noon - 1h);
  CHECK(counts.size() == 1);
  CHECK(symbols_before(counts, noon) == 8);
}

TEST_CASE("old errors of a node that is new are no growth") {
  FabricCounts counts;
  FabricCount count = count_of(errors_of(0), linked_fabric(), noon);
  CHECK(count.nodes.erase("0x0000000000100005") == 1);
  keep_count(counts, count);
  const FabricErrors now = errors_of(4000);
  const auto baseline = baseline_of(counts, now, noon + 10min);
  REQUIRE(baseline);
  for (const auto& one : judge_fabric_errors(baseline->errors, now, 600s, linked_fabric(), {})) {
    CHECK(one.finding.status == CheckStatus::pass);
  }
}

TEST_CASE("only what is judged is kept, and what names no port is left out") {
  const FabricCount count = count_of(errors_of(5), linked_fabric(), noon);
  CHECK(count.counters.at("0x0000000000100005:1") ==
        std::map<std::string, std::uint64_t>{{"SymbolErrorCounter", 5}});
  FabricCounts counts{count};
  for (const char* key : {"", "0x", "0xzz:1", "0x10:", "10:1", "0x10:1:2", "0x10000000000000000:1"})
    counts.front().counters[key] = {{"SymbolErrorCounter", 5}};
  CHECK(baseline_of(counts, {}, noon + 1h)->errors.counters.size() == 1);
}
