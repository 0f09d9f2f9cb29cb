// What follows from the rule that fits a rank's exit, and what other rules would have made of a
// recorded run. Rules are matched by the real rule book, as the controller does.
#include <csignal>

#include "scheduler/explain/rules_replay.h"
#include "scheduler/failure/first_failure.h"
#include "scheduler/model/record.h"
#include "scheduler/restart/rule_book.h"
#include "scheduler/state/sentences.h"
#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

RestartRule on_words(const std::string& pattern, Reaction action) {
  RestartRule rule;
  rule.stderr_regex = pattern;
  rule.action = action;
  return rule;
}

constexpr const char* out_of_memory = "RuntimeError: CUDA out of memory.";
constexpr const char* peer_is_gone = "ncclRemoteError: a peer is gone";

OtherPolicy with_rules(std::vector<RestartRule> rules) {
  return {[rules](MusterSettings& settings) { settings.rules = rules; },
          [](const MusterSettings& settings, const RankExited& exit) {
            return judge_exit(settings, known_exit(exit));
          }};
}

// Fails with code 1 after progress, is restarted, ends well.
Bench a_run_with_one_failure() {
  Bench bench(a_job().on_nodes(2));
  bench.progress(10, sealed(10));
  bench.fail_and_retry(0, {1, 0}, "ValueError: no tokens");
  bench.progress(20, sealed(20, 2));
  bench.finish();
  return bench;
}

}  // namespace

TEST_CASE("a built-in rule stops a job before its first progress and tells what to do") {
  Bench bench(a_job().on_nodes(1));
  bench.fail_and_retry(0, {1, 0}, out_of_memory);
  CHECK(bench.last<JobEnded>()->exit_code == 1);
  CHECK_THAT(bench.the<JobEnded>().reason,
             ContainsSubstring("rule cuda-oom (default): class user: stop: "
                               "reduce the batch size"));
  CHECK_THAT(bench.story(), ContainsSubstring("rule cuda-oom (default): class user"));
}

TEST_CASE("a built-in rule does not stop a job that has made progress") {
  Bench bench(a_job().on_nodes(1));
  bench.progress(10, sealed(10));
  bench.fail_and_retry(0, {1, 0}, out_of_memory);
  CHECK(bench.is_in<Running>());
  CHECK_THAT(bench.the<RetryScheduled>().rule,
             ContainsSubstring("rule cuda-oom (default): class user: backoff"));
}

TEST_CASE("a job's own rule stops it after progress too") {
  Bench bench(a_job().on_nodes(1).rule(on_words("no tokens", Reaction::stop)));
  bench.progress(10, sealed(10));
  bench.fail_and_retry(0, {42, 0}, "no tokens");
  CHECK(bench.last<JobEnded>()->exit_code == 42);
}

TEST_CASE("the job's word on a class comes before a built-in rule and after its own rules") {
  Bench bench;
  auto job = a_job().on_nodes(1);
  job.spec().muster.class_actions["user"] = Reaction::retry;
  SECTION("before the built-in rule") {
    bench.start(job);
    bench.fail_and_retry(0, {1, 0}, out_of_memory);
    CHECK(bench.is_in<Running>());
  }
  SECTION("after its own") {
    bench.start(job.rule(on_words("memory", Reaction::stop)));
    bench.fail_and_retry(0, {1, 0}, out_of_memory);
    CHECK_THAT(bench.the<JobEnded>().reason, ContainsSubstring("rule 1 (job): class user: stop"));
  }
}

TEST_CASE("a rule's own delay is kept instead of the job's") {
  Bench bench(a_job().on_nodes(1));
  bench.exit_and_obey(0, {1, 0}, Milliseconds{0}, "train", "429 Client Error: Too Many Requests");
  const RetryScheduled& retry = bench.the<RetryScheduled>();
  CHECK(retry.at - bench.now >= Seconds{90});
  CHECK(retry.at - bench.now <= Seconds{150});
}

TEST_CASE("a failure that a rule expects to pass is not given up when it happens twice") {
  Bench bench(a_job().on_nodes(1));
  for (int i = 0; i < 2; ++i) bench.fail_and_retry(0, {1, 0}, "429 Client Error: Too Many");
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a GPU that is lost takes its node out of the job") {
  Bench bench(a_job().on_nodes(2));
  bench.fail_and_retry(1, {1, 0}, "GPU has fallen off the bus");
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::hw);
  CHECK(bench.the<RetryScheduled>().exclude);
  CHECK(bench.the<RetryScheduled>().avoid == std::vector<NodeId>{NodeId{"h02"}});
}

TEST_CASE("of ranks that failed together the one that does not echo another is the cause") {
  Bench bench(a_job().on_nodes(2));
  bench.exit_rank(1, {1, 0}, Milliseconds{11}, "train", peer_is_gone);
  bench.exit_and_obey(0, {1, 0}, Milliseconds{10}, "train", out_of_memory);
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  REQUIRE(cause.rules.rule);
  CHECK(cause.rules.rule->id == "cuda-oom");
  CHECK(cause.last_lines.back() == out_of_memory);
}

TEST_CASE("a rank that was stopped after it had said why is heard by its words, not its status") {
  Bench bench(a_job().on_nodes(2));
  bench.exit_rank(0, {1, 0}, Milliseconds{0}, "train", peer_is_gone);
  RankExited stopped;
  stopped.job = JobId{"train"};
  stopped.node = NodeId{"h02"};
  stopped.rank = RankId{1};
  stopped.status = {0, SIGTERM};
  stopped.asked_to_stop = true;
  stopped.when = around(bench.now + Milliseconds{50});
  SECTION("with words of its own") {
    stopped.last_lines = {out_of_memory};
    CHECK(counts_as_failure(stopped));
    stopped.rules = judge_exit({}, known_exit(stopped));
    bench.observe(stopped);
    bench.obey();
    const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
    CHECK(cause.first_rank == RankId{1});
    REQUIRE(cause.rules.rule);
    CHECK(cause.rules.rule->id == "cuda-oom");
  }
  SECTION("without") {
    CHECK_FALSE(counts_as_failure(stopped));
    CHECK_FALSE(judge_exit({}, known_exit(stopped)).rule);
  }
}

TEST_CASE("the words of ranks that outlived a lost node are no cause") {
  Bench bench(a_job().on_nodes(2));
  bench.exit_rank(0, {1, 0}, Milliseconds{0}, "train", out_of_memory);
  bench.unlink(2);
  bench.obey_after(Seconds{600});
  CHECK(bench.the<AttemptEnded>().cause.failure_class == FailureClass::infra);
  CHECK(!bench.last<AttemptEnded>()->cause.rules.rule);
}

TEST_CASE("a rank that calls itself preempted is charged until it has made progress") {
  Bench bench(a_job().on_nodes(1));
  bench.fail_and_retry(0, {1, 0}, "spot termination notice");
  CHECK(bench.the<RetryScheduled>().charged);
  bench.progress(10, sealed(10, 2));
  bench.fail_and_retry(0, {1, 0}, "spot termination notice");
  CHECK(!bench.the<RetryScheduled>().charged);
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::preempted);
}

TEST_CASE("a run that diverged is not started again whatever it had reached, and blames no node") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(50, sealed(50));
  bench.exit_and_obey(0, {4, 0}, {}, "train", "muster-train: diverged: the loss is far above");
  CHECK(bench.the<JobEnded>().exit_code == 93);
  CHECK_THAT(bench.last<JobEnded>()->reason,
             ContainsSubstring("rule diverged (default): class divergence: stop"));
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::divergence);
  CHECK_FALSE(bench.last<RetryScheduled>());
  CHECK_FALSE(bench.last<NodeSuspected>());
}

TEST_CASE("rules that say what the recorded ones said change nothing") {
  const Bench bench = a_run_with_one_failure();
  const auto steps = replay_policy(bench.journal, with_rules({}));
  REQUIRE(steps.size() == 1);
  CHECK(!steps[0].differs);
  CHECK(steps[0].recorded == steps[0].proposed);
  CHECK_THAT(steps[0].recorded, ContainsSubstring("restarted on the same nodes after"));
}

TEST_CASE("a rule tried on a recorded run tells what it would have done") {
  const Bench bench = a_run_with_one_failure();
  auto rule = on_words("no tokens", Reaction::stop);
  const auto steps = replay_policy(bench.journal, with_rules({rule}));
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].differs);
  CHECK(steps[0].proposed == "ended with 1");
  CHECK_THAT(steps[0].why, ContainsSubstring("rule 1 (job): class user: stop"));
  rule.enforce = false;
  const auto logged = replay_policy(bench.journal, with_rules({rule}));
  REQUIRE(logged.size() == 1);
  CHECK(!logged[0].differs);
  CHECK(logged[0].cause.rules.only_logged == std::vector<std::string>{"1"});
}

TEST_CASE("what follows the first difference is said to be hypothetical") {
  Bench bench(a_job().on_nodes(1));
  bench.progress(10, sealed(10));
  bench.fail_and_retry(0, {1, 0}, "ValueError: no tokens");
  bench.progress(20, sealed(20, 2));
  bench.fail_and_retry(0, {1, 0}, "ValueError: no tokens");
  const auto steps =
      replay_policy(bench.journal, with_rules({on_words("no tokens", Reaction::stop)}));
  REQUIRE(steps.size() == 2);
  CHECK(!steps[0].hypothetical);
  CHECK(steps[1].hypothetical);
}

TEST_CASE("a run of which only its own records are left can be tried as well") {
  const Bench bench = a_run_with_one_failure();
  std::vector<Record> own;
  for (const Record& record : bench.journal) {
    if (job_of(record)) own.push_back(record);
  }
  CHECK(own.size() < bench.journal.size());
  const auto steps = replay_policy(own, with_rules({}));
  REQUIRE(steps.size() == 1);
  CHECK(!steps[0].differs);
}

TEST_CASE("the end of an attempt that was not stopped, as no controller records it, is no step") {
  Bench bench(a_job().on_nodes(1));
  AttemptEnded ended;
  ended.job = JobId{"train"};
  ended.attempt = bench.attempt().id;
  ended.cause.first_rank = RankId{0};
  std::vector<Record> journal = bench.journal;
  journal.push_back({bench.now, Decision{ended}});
  CHECK(replay_policy(journal, with_rules({})).empty());
}
