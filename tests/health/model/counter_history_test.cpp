#include "health/model/counter_history.h"

#include <random>

#include "tests/catch.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

const CounterKey symbol{"boot-1", "mlx5_3:1", "symbol_error"};
constexpr std::chrono::milliseconds start = std::chrono::hours(480000);

CounterGrowth grown(const CounterHistory& history, std::chrono::milliseconds window,
                    int bits = 16) {
  return std::get<CounterGrowth>(history.growth(symbol, window, bits));
}

}  // namespace

TEST_CASE("a counter grows within a window, not since its start") {
  CounterHistory history;
  for (int minute = 0; minute <= 30; ++minute)
    history.observe(symbol, {start + minute * 1min, static_cast<std::uint64_t>(100 + 10 * minute)});
  CHECK(grown(history, 10min).amount() == 100);
  CHECK(grown(history, 10min).elapsed == 10min);
  CHECK(grown(history, 1h).amount() == 300);
  CHECK(grown(history, 1h).elapsed == 30min);
  CHECK(grown(history, 1h).from == 100);
}

TEST_CASE("a window that begins between two samples takes the older one") {
  CounterHistory history;
  history.observe(symbol, {start, 0});
  history.observe(symbol, {start + 40s, 3});
  history.observe(symbol, {start + 80s, 5});
  CHECK(grown(history, 50s).amount() == 5);
  CHECK(grown(history, 50s).elapsed == 80s);
}

TEST_CASE("what was seen once has no baseline") {
  CounterHistory history;
  CHECK(std::holds_alternative<NoBaseline>(history.growth(symbol, 1h, 16)));
  history.observe(symbol, {start, 7});
  CHECK(std::holds_alternative<NoBaseline>(history.growth(symbol, 1h, 16)));
}

TEST_CASE("a smaller value restarts the baseline") {
  CounterHistory history;
  history.observe(symbol, {start, 500});
  history.observe(symbol, {start + 30s, 700});
  history.observe(symbol, {start + 60s, 4});
  CHECK(std::holds_alternative<NoBaseline>(history.growth(symbol, 1h, 16)));
  history.observe(symbol, {start + 90s, 6});
  CHECK(grown(history, 1h).amount() == 2);
}

TEST_CASE("a clock that was set back restarts the baseline") {
  CounterHistory history;
  history.observe(symbol, {start, 5});
  history.observe(symbol, {start + 30s, 9});
  history.observe(symbol, {start - 1h, 10});
  CHECK(std::holds_alternative<NoBaseline>(history.growth(symbol, 1h, 16)));
}

TEST_CASE("another boot or another board is another counter") {
  CounterHistory history;
  history.observe(symbol, {start, 5});
  CounterKey later = symbol;
  later.owner = "boot-2";
  history.observe(later, {start + 30s, 900});
  CHECK(std::holds_alternative<NoBaseline>(history.growth(later, 1h, 16)));
}

TEST_CASE("a counter at the maximum of its register is saturated") {
  struct Row {
    std::uint64_t value;
    int bits;
    bool saturated;
  };
  const Row rows[] = {{255, 8, true},
                      {254, 8, false},
                      {15, 4, true},
                      {16, 4, false},
                      {255, 4, true},
                      {65535, 16, true},
                      {65536, 16, false},
                      {65535, 8, true},
                      {0xffffffff, 32, true},
                      {0x100000000, 32, false},
                      {~std::uint64_t{0}, 32, true},
                      {0xffffffff, 64, false},
                      {~std::uint64_t{0}, 64, true},
                      {0, 8, false}};
  for (const Row& row : rows) {
    INFO(row.value << " of " << row.bits << " bits");
    CHECK(is_saturated(row.value, row.bits) == row.saturated);
  }
}

TEST_CASE("a saturated counter tells what it grew by before, also when it was seen once") {
  CounterHistory history;
  history.observe(symbol, {start, 65535});
  const GrowthReading once = history.growth(symbol, 1h, 16);
  REQUIRE(std::holds_alternative<SaturatedCounter>(once));
  CHECK(std::get<SaturatedCounter>(once).at_least.amount() == 0);
  CounterHistory other;
  other.observe(symbol, {start, 65000});
  other.observe(symbol, {start + 30s, 65535});
  CHECK(std::get<SaturatedCounter>(other.growth(symbol, 1h, 16)).at_least.amount() == 535);
}

TEST_CASE("dense samples cost no memory and lose no growth") {
  CounterHistory history;
  for (int second = 0; second <= 4 * 3600; ++second)
    history.observe(symbol, {start + second * 1s, static_cast<std::uint64_t>(second)});
  CHECK(history.state().front().samples.size() <= 2 * 240 + 2);
  CHECK(grown(history, 1h, 32).elapsed >= 1h);
  CHECK(grown(history, 1h, 32).elapsed < 1h + 30s);
  CHECK(grown(history, 30s, 32).elapsed < 60s);
}

TEST_CASE("the counter that was not seen for the longest time makes room") {
  CounterHistory history({1h, 15s, 3});
  for (int n = 0; n < 5; ++n)
    history.observe({"boot", "mlx5_" + std::to_string(n) + ":1", "link_downed"},
                    {start + n * 1s, 0});
  const auto state = history.state();
  REQUIRE(state.size() == 3);
  CHECK(state.front().key.device == "mlx5_2:1");
}

TEST_CASE("a history is saved and goes on") {
  CounterHistory history;
  history.observe(symbol, {start, 5});
  history.observe(symbol, {start + 30s, 8});
  CounterHistory again(history.state());
  CHECK(again.state() == history.state());
  again.observe(symbol, {start + 60s, 9});
  CHECK(grown(again, 1h).amount() == 4);
}

TEST_CASE("a damaged history is left out") {
  const std::vector<CounterTrack> damaged = {
      {{"b", "d", "empty"}, {}},
      {{"b", "d", "times"}, {{2s, 1}, {1s, 2}}},
      {{"b", "d", "twice"}, {{2s, 1}, {2s, 2}}},
      {{"b", "d", "values"}, {{1s, 2}, {2s, 1}}},
      {{"b", "d", "negative"}, {{std::chrono::milliseconds::min(), 1}, {2s, 1}}},
      {symbol, {{1s, 2}, {2s, 3}}}};
  const CounterHistory history(damaged);
  REQUIRE(history.state().size() == 1);
  CHECK(history.state().front().key == symbol);
}

TEST_CASE("whatever is observed, memory is bounded and growth is no more than the last value") {
  std::mt19937_64 random(20240501);
  CounterHistory history({10min, 5s, 8});
  std::chrono::milliseconds at = start;
  for (int n = 0; n < 20000; ++n) {
    at += std::chrono::milliseconds(static_cast<int>(random() % 20000)) - 500ms;
    const CounterKey key{"b", "d" + std::to_string(random() % 12), "c"};
    const std::uint64_t value = random() % 4 == 0 ? random() : n;
    history.observe(key, {at, value});
    const GrowthReading read = history.growth(key, 5min, 64);
    if (const auto* growth = std::get_if<CounterGrowth>(&read)) {
      REQUIRE(growth->amount() <= value);
      REQUIRE(growth->elapsed > 0s);
    }
  }
  REQUIRE(history.state().size() <= 8);
  for (const CounterTrack& track : history.state()) REQUIRE(track.samples.size() <= 242);
  CHECK(CounterHistory(history.state(), {10min, 5s, 8}).state() == history.state());
}
