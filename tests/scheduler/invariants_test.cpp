// The auditors must see a broken promise, or the property tests prove nothing.
#include "scheduler/invariants.h"

#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

std::vector<Record> a_run_with_a_restart() {
  Bench bench;
  bench.start(a_job().on_nodes(2));
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
  Bench bench;
  bench.submit(a_job("x").on_nodes(1));
  bench.submit(a_job("y").on_nodes(1));
  State broken = bench.state;
  std::get<Active>(broken.jobs.at(JobId{"y"}).phase).attempt.nodes[0].id = NodeId{"h01"};
  CHECK_THAT(first(violations(broken)), ContainsSubstring("I1"));
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
  Bench bench;
  bench.start(a_job().on_nodes(1));
  bench.finish();
  bench.journal.push_back(bench.journal.back());
  CHECK_THAT(first(violations(bench.journal)), ContainsSubstring("I9"));
}
