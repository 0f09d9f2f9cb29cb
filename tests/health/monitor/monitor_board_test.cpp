// When the board's controller is asked, and what a run makes of it: on a complete fake node.
#include <algorithm>

#include "health/monitor/check_run.h"
#include "health/monitor/node_monitor.h"
#include "tests/catch.h"
#include "tests/health/monitor_profile.h"
#include "tests/health/simulated_agent.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr SourceGroups board = static_cast<SourceGroups>(SourceGroup::board);
constexpr const char* lost_memory =
    "1b,11/23/26,10:49:42 UTC,Memory #0x53,Uncorrectable ECC,Asserted\n";

struct Boarded {
  FakeNode node{FakeKind::h100};
  SimulatedAgent agent{node, monitor_profile(), 24h};

  Boarded() {
    node.set("ipmi:time", "11/23/26 11:49:42 UTC\n");
    node.set("ipmi:sel", "SEL has no entries\n");
    node.set("ipmi:sdr", "CPU0 Temp,45,degrees C,ok\n");
  }
  std::vector<HealthFinding> of_board(Phase phase, SourceGroups groups = all_source_groups) {
    auto found = agent.run(phase, groups);
    std::erase_if(found, [](const HealthFinding& one) { return one.check != "host.bmc"; });
    return found;
  }
};

}  // namespace

TEST_CASE("the board is asked on demand, after a failure and in a qualification, and never else") {
  Boarded one;
  for (const Phase phase : {Phase::on_demand, Phase::on_failure, Phase::qualification}) {
    const auto found = one.of_board(phase);
    REQUIRE(found.size() == 1);
    CHECK(found.front().status == CheckStatus::pass);
  }
  for (const Phase phase : {Phase::prolog, Phase::periodic, Phase::epilog})
    CHECK(one.of_board(phase).empty());
  CHECK(one.of_board(Phase::on_demand, paced_source_groups).empty());
}

TEST_CASE("nothing is due of the board, whatever is believed of it") {
  Boarded one;
  one.node.set("ipmi:sel", lost_memory);
  one.agent.asks_board();
  REQUIRE(one.agent.verdict().would_drain.size() + one.agent.verdict().warnings.size() == 1);
  one.node.set("ipmi:sel", "??\n");
  one.agent.asks_board();
  for (int second = 0; second < 600; ++second) {
    CHECK_FALSE(has(one.agent.health().pace(one.agent.now(), true).groups, SourceGroup::board));
    one.agent.run_for(1s);
  }
}

TEST_CASE("a board's run reads the board alone, and a bad sensor twice") {
  Boarded one;
  one.node.set("ipmi:sdr", "CPU0 Temp,92,degrees C,cr\n");
  CheckSituation situation;
  situation.phase = Phase::on_failure;
  situation.groups = board;
  CheckRun run(one.agent.monitor(), situation);
  std::vector<std::size_t> sources;
  for (RunStep step = run.next(); std::holds_alternative<ReadNext>(step); step = run.next()) {
    const auto* read = std::get_if<ReadNext>(&step);
    sources.push_back(read->request.sources.size());
    CHECK(std::ranges::all_of(read->request.sources, [](const std::string& source) {
      return source.starts_with("ipmi:");
    }));
    CHECK_FALSE(read->request.gpus);
    run.read(one.node.read(read->request), one.agent.now());
  }
  CHECK(sources == std::vector<std::size_t>{3, 1});
  REQUIRE(run.findings().size() == 1);
  CHECK(run.findings().front().status == CheckStatus::fail);
  CHECK(run.findings().front().value == "CPU0 Temp 92 degrees C is critical");
}

TEST_CASE("a fault of the board is over after passes") {
  Boarded one;
  one.node.set("ipmi:sel", lost_memory);
  one.agent.asks_board();
  CHECK_FALSE(one.agent.health().checks_with_faults().empty());
  one.node.set("ipmi:sel", "SEL has no entries\n");
  for (int look = 0; look < 3; ++look) {
    one.agent.run_for(10min);
    one.agent.asks_board();
  }
  CHECK(one.agent.health().checks_with_faults().empty());
}

TEST_CASE("a profile turns the board off") {
  FakeNode node(FakeKind::h100);
  node.set("ipmi:sel", lost_memory);
  HealthProfile profile = monitor_profile();
  profile.checks["host.bmc"].mode = CheckMode::off;
  SimulatedAgent agent(node, profile, 24h);
  for (const HealthFinding& one : agent.run(Phase::on_demand)) CHECK(one.check != "host.bmc");
}
