// The auditors must see a broken promise, or the property tests prove nothing.
#include "tests/sim/model/invariants.h"

#include "tests/catch.h"
#include "tests/scheduler/elastic_bench.h"

using namespace muster;
using namespace muster::test;

namespace {

std::vector<Record> a_run_with_a_restart() {
  Bench bench(a_job().on_nodes(2));
  bench.progress(10, sealed(10));
  bench.fail_and_retry(0, {1, 0});
  REQUIRE(bench.violations().empty());
  return bench.journal;
}

template <class T>
std::vector<Record> without(const std::vector<Record>& journal) {
  std::vector<Record> rest;
  for (const Record& record : journal) {
    if (!record_as<T>(record)) rest.push_back(record);
  }
  return rest;
}

template <class T, class Change>
std::vector<Record> changed(std::vector<Record> journal, Change change) {
  for (Record& record : journal) {
    if (const T* found = record_as<T>(record)) change(const_cast<T&>(*found));
  }
  return journal;
}

std::string first(const std::vector<std::string>& found) {
  return found.empty() ? "nothing" : found.front();
}

}  // namespace

TEST_CASE("I1: a node with two attempts is seen") {
  Bench bench(a_job("x").on_nodes(1), 0);
  bench.submit(a_job("y").on_nodes(1));
  State broken = bench.state;
  std::get<Active>(broken.jobs.at(JobId{"y"}).phase).attempt.nodes[0].id = NodeId{"h01"};
  CHECK_THAT(first(violations(broken)), ContainsSubstring("I1"));
}

TEST_CASE("I1: a node that is used and not owned, or owned and not used, is seen") {
  Bench bench(a_job().on_nodes(2));
  const auto broken = [&](auto change) {
    State state = bench.state;
    change(state);
    return first(violations(state));
  };
  const NodeId h01{"h01"}, h03{"h03"};
  CHECK_THAT(broken([&](State& state) { state.nodes[h01].owner.reset(); }),
             ContainsSubstring("I1: h01 is used but not owned by train"));
  CHECK_THAT(broken([&](State& state) { state.nodes[h01].owner = JobId{"other"}; }),
             ContainsSubstring("I1: h01 is used but not owned by train"));
  CHECK_THAT(broken([&](State& state) { state.nodes[h03].owner = JobId{"train"}; }),
             ContainsSubstring("I1: h03 is owned by train, which does not use it"));
  CHECK_THAT(broken([&](State& state) { state.nodes[h03].owner = JobId{"gone"}; }),
             ContainsSubstring("I1: h03 is owned by gone, which does not use it"));
  // Of processes that do not die the owner may be over.
  CHECK(broken([&](State& state) {
          state.nodes[h03].owner = JobId{"gone"};
          state.nodes[h03].unclean.emplace();
        }) == "nothing");
}

TEST_CASE("I2: an attempt that starts before the last one is quiet is seen") {
  CHECK_THAT(first(violations(without<NodeClean>(a_run_with_a_restart()))),
             ContainsSubstring("I2"));
}

TEST_CASE("I3: a step that was never sealed, and going back, are seen") {
  const auto journal = a_run_with_a_restart();
  const auto invented = changed<LaunchBegun>(journal, [](LaunchBegun& launch) {
    if (launch.resume_from) launch.resume_from->step = 99;
  });
  CHECK_THAT(first(violations(invented)), ContainsSubstring("I3"));
  const auto back = changed<LaunchBegun>(journal, [](LaunchBegun& launch) {
    if (launch.resume_from) {
      launch.resume_from.reset();
    } else {
      launch.resume_from = sealed(10);
    }
  });
  CHECK_THAT(violations(back).back(), ContainsSubstring("I3: goes back"));
}

TEST_CASE("I4: more restarts than the budget are seen") {
  const auto journal = changed<JobSubmitted>(
      a_run_with_a_restart(), [](JobSubmitted& job) { job.spec.muster.restart.attempts = 0; });
  CHECK_THAT(first(violations(journal)), ContainsSubstring("I4"));
}

TEST_CASE("I5: a launch on a drained or unchecked node is seen") {
  CHECK_THAT(first(violations(without<NodeChecked>(a_run_with_a_restart()))),
             ContainsSubstring("I5"));
}

TEST_CASE("I9: a second end is seen") {
  Bench bench(a_job().on_nodes(1));
  bench.finish();
  bench.journal.push_back(bench.journal.back());
  CHECK_THAT(first(violations(bench.journal)), ContainsSubstring("I9"));
}

// ---- elastic attempts -------------------------------------------------------------------------

namespace {

// Starts on two, a third comes, another goes.
std::vector<Record> an_elastic_run() {
  ElasticBench bench(a_job().elastic(2, 3).of_cluster(3), 2);
  bench.come(3);
  bench.kill_and_obey(0);
  REQUIRE(bench.violations().empty());
  REQUIRE(bench.count<NodeReleased>() == 1);
  return bench.journal;
}

}  // namespace

TEST_CASE("I12: members that are too few, change places or skip an epoch are seen") {
  const auto journal = an_elastic_run();
  const auto few = changed<MembersChanged>(journal, [](auto& one) { one.ranks.resize(1); });
  CHECK_THAT(first(violations(few)), ContainsSubstring("fewer nodes than it needs"));
  const auto turned = changed<MembersChanged>(journal, [](MembersChanged& one) {
    if (one.members_epoch == 2) std::swap(one.ranks[0], one.ranks[2]);
  });
  CHECK_THAT(first(violations(turned)), ContainsSubstring("change places"));
  const auto late = changed<MembersChanged>(journal, [](auto& one) { one.members_epoch += 1; });
  CHECK_THAT(first(violations(late)), ContainsSubstring("skip an epoch"));
}

TEST_CASE("I12: a node that is given away before it is quiet, or joins untaken, is seen") {
  const auto journal = an_elastic_run();
  CHECK_THAT(first(violations(without<NodeClean>(journal))), ContainsSubstring("may still run"));
  CHECK_THAT(first(violations(without<NodeAdded>(journal))), ContainsSubstring("was not taken"));
}

TEST_CASE("I12: a state whose members are not what its nodes say is seen") {
  ElasticBench bench(a_job().elastic(2, 3).of_cluster(3), 3);
  const auto broken = [&](auto change) {
    State state = bench.state;
    change(std::get<Active>(state.jobs.at(JobId{"train"}).phase).attempt);
    return first(violations(state));
  };
  CHECK(broken([](Attempt&) {}) == "nothing");
  CHECK_THAT(broken([](Attempt& one) { one.members.ranks.pop_back(); }), ContainsSubstring("I12"));
  CHECK_THAT(broken([](Attempt& one) { one.members.ranks[1] = RankId{0}; }),
             ContainsSubstring("is twice"));
  CHECK_THAT(broken([](Attempt& one) { one.nodes[1].membership.told = 2; }),
             ContainsSubstring("never were"));
  CHECK_THAT(broken([](Attempt& one) { one.nodes[1].departure.emplace(); }),
             ContainsSubstring("goes, and is a member"));
  CHECK_THAT(broken([](Attempt& one) { one.nodes[1].join.emplace(); }),
             ContainsSubstring("is a member without ranks"));
  CHECK_THAT(broken([](Attempt& one) { one.nodes[1].membership.is_member = false; }),
             ContainsSubstring("I12"));
  CHECK_THAT(broken([](Attempt& one) { one.members.ranks[1] = RankId{3}; }),
             ContainsSubstring("is no member"));
  CHECK_THAT(broken([](Attempt& one) { one.members.ranks[1] = RankId{-1}; }),
             ContainsSubstring("is no member"));
  CHECK_THAT(broken([](Attempt& one) { one.ranks[2].node_index = 0; }),
             ContainsSubstring("out of order"));
}

TEST_CASE("I12: a node of a fixed job that comes or goes is seen") {
  Bench bench(a_job().on_nodes(2));
  const auto broken = [&](auto change) {
    State state = bench.state;
    change(std::get<Active>(state.jobs.at(JobId{"train"}).phase).attempt.nodes.at(1));
    std::string all;
    for (const std::string& one : violations(state)) all += one + "\n";
    return all;
  };
  CHECK(broken([](AttemptNode&) {}).empty());
  const std::string told = "h02 of train comes or goes, but the job is not elastic";
  CHECK_THAT(broken([](AttemptNode& node) { node.join.emplace(); }), ContainsSubstring(told));
  CHECK_THAT(broken([](AttemptNode& node) { node.membership.is_member = true; }),
             ContainsSubstring(told));
  CHECK_THAT(broken([](AttemptNode& node) { node.departure.emplace(); }), ContainsSubstring(told));
  CHECK_THAT(broken([](AttemptNode& node) { node.departure.emplace().is_released = true; }),
             ContainsSubstring(told));
}

TEST_CASE("I12: a fixed job whose nodes change is seen") {
  Bench bench(a_job().on_nodes(2));
  std::vector<Record> journal = bench.journal;
  journal.push_back({bench.now, Decision{NodeAdded{{"train"}, {0}, {"h03"}, "it is free"}}});
  CHECK_THAT(first(violations(journal)), ContainsSubstring("no elastic attempt"));
}
