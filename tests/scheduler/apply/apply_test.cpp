// Records that cannot be true where they stand change nothing: a journal from elsewhere, a late or
// a lying agent.
#include "scheduler/apply/apply.h"

#include <limits>

#include "tests/catch.h"
#include "tests/scheduler/bench.h"
#include "tests/sim/model/dump.h"

using namespace muster;
using namespace muster::test;

namespace {

const JobId train{"train"};
const AttemptId first_attempt{0};
const NodeId h01{"h01"}, h02{"h02"}, h03{"h03"};

bool changes(const Bench& bench, std::variant<Observation, Decision> what) {
  State state = bench.state;
  apply(state, {bench.now, std::move(what)});
  return describe(state) != describe(bench.state);
}

Bench gathering() {
  Bench bench(a_job().on_nodes(2), 3);
  return bench;
}

Bench running() {
  Bench bench(a_job().on_nodes(2));
  return bench;
}

}  // namespace

TEST_CASE("nothing is allocated a node that is taken, twice on one, or on none") {
  Bench bench = running();
  bench.submit(a_job("next").on_nodes(3));
  const JobId next{"next"};
  REQUIRE(bench.last<JobPending>());
  CHECK(!changes(bench, Decision{AttemptPlaced{next, first_attempt, {h01, h03}, ""}}));
  CHECK(!changes(bench, Decision{AttemptPlaced{next, first_attempt, {h03, h03}, ""}}));
  CHECK(!changes(bench, Decision{AttemptPlaced{next, first_attempt, {}, ""}}));
  CHECK(changes(bench, Decision{AttemptPlaced{next, first_attempt, {h03}, ""}}));
}

TEST_CASE("a gang changes its nodes only while it gathers, and only for free ones") {
  const Decision replaced =
      NodeReplaced{train, first_attempt, h01, h03, "sick", Unfitness::unhealthy};
  CHECK(changes(gathering(), replaced));
  CHECK(!changes(gathering(), Decision{NodeReplaced{train, first_attempt, h01, h02, "", {}}}));
  CHECK(!changes(running(), replaced));
  CHECK(!changes(running(), Decision{PlacementAbandoned{train, first_attempt, "", from_ms(0)}}));
}

TEST_CASE("the phases of an attempt follow each other") {
  const Bench start = gathering(), run = running();
  CHECK(!changes(run, Decision{StagingBegun{train, first_attempt}}));
  CHECK(!changes(start, Decision{PortsAsked{train, first_attempt}}));
  CHECK(!changes(start, Decision{LaunchBegun{train, first_attempt, {}, "", false}}));
  CHECK(!changes(run, Decision{LaunchBegun{train, first_attempt, {}, "", false}}));
  CHECK(!changes(run, Decision{NodeFenced{train, first_attempt, h01, FenceProof::lease_expired}}));
  CHECK(!changes(run, Decision{CollectionBegun{train, first_attempt}}));
  CHECK(!changes(run, Decision{AttemptEnded{train, first_attempt, {}, {}}}));
  CHECK(!changes(run, Decision{JobEnded{train, JobEndState::failed, 1, ""}}));
}

TEST_CASE("an attempt that is over stays over") {
  Bench bench = running();
  bench.exit_rank(0, {});
  bench.exit_rank(1, {});
  while (bench.is_in<Stopping>()) bench.obey(pending_work(bench.state).front());
  REQUIRE(bench.is_in<Collecting>());
  CHECK(!changes(bench,
                 Decision{StopBegun{train, first_attempt, StopReason::canceled, "", Seconds{1}}}));
}

TEST_CASE("time that an attempt ran is counted once") {
  Bench bench = running();
  bench.pass(Seconds{10});
  bench.cancel();
  bench.pass(Seconds{10});
  bench.cancel();
  CHECK(bench.job().ran_for == Seconds{10});
}

TEST_CASE("a rank does not end before it could start, and a node that was not told is not clean") {
  const RankExited exit{train, first_attempt, h01, RankId{0}, {1, 0}, false, 0, {}};
  CHECK(!changes(gathering(), Observation{exit}));
  CHECK(changes(running(), Observation{exit}));
  CHECK(!changes(running(), Observation{NodeClean{train, first_attempt, h01, {}, {}}}));
}

TEST_CASE("the end of a rank that there is not, or that runs elsewhere, changes nothing") {
  const auto exit_of = [](std::int64_t rank, const NodeId& node) {
    return Observation{RankExited{train, first_attempt, node, RankId{rank}, {1, 0}, false, 0, {}}};
  };
  CHECK(changes(running(), exit_of(0, h01)));
  CHECK(changes(running(), exit_of(1, h02)));
  CHECK(!changes(running(), exit_of(1, h01)));
  CHECK(!changes(running(), exit_of(2, h02)));
  for (const NodeId& node : {h01, h02}) {
    CHECK(!changes(running(), exit_of(-1, node)));
    CHECK(!changes(running(), exit_of(std::numeric_limits<std::int64_t>::min(), node)));
  }
}
