#include <csignal>

#include "scheduler/restart/policy.h"
#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

RestartRule on_exit(int code) {
  RestartRule rule;
  rule.exit_codes = {{code, code}};
  return rule;
}

}  // namespace

TEST_CASE("a user failure restarts in place, on the same nodes in the same order") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(10, sealed(10));
  bench.fail_and_retry(1, {0, SIGKILL});
  CHECK(bench.is_in<Running>());
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h02"});
  CHECK(!bench.last<RetryScheduled>()->reschedule);
  CHECK_THAT(bench.last<RetryScheduled>()->rule,
             ContainsSubstring("restart 1 of 3 (per 1 h) after "));
  CHECK(bench.last<AttemptPlaced>()->why == "the same nodes as before");
}

TEST_CASE("the same exit twice before any progress gives up with 93 and shows the last lines") {
  Bench bench(a_job().on_nodes(1));
  bench.fail_and_retry(0, {1, 0});
  REQUIRE(bench.is_in<Running>());
  bench.fail_and_retry(0, {1, 0});
  CHECK(bench.ended_with() == 93);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("rank 0 on h01 exited with code 1"));
  CHECK(bench.last<AttemptEnded>()->cause.last_lines.back() == "ValueError: no such batch");
}

TEST_CASE("a program that tells nothing and is killed twice may have made progress") {
  Bench bench(a_job().on_nodes(1).restarts(100).no_progress_cycles(3));
  for (int kills = 1; kills <= 3; ++kills) {
    bench.fail_and_retry(0, {0, SIGKILL});
    REQUIRE(bench.is_live());
  }
  bench.fail_and_retry(0, {0, SIGKILL});
  CHECK(bench.ended_with() == 93);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("3 restarts without"));
}

TEST_CASE("another program's checkpoint is progress when it is further than all before it") {
  const auto saved = [](std::int64_t step, std::int64_t changed_ms) {
    return CheckpointRef{step, "/out/ckpt_" + std::to_string(step) + ".pt", "torch", changed_ms};
  };
  Bench over(a_job().on_nodes(1).restarts(100).no_progress_cycles(3));
  int kills = 0;
  for (; over.is_live(); ++kills) {  // it starts over, and saves again what it had saved
    over.progress(0, saved(30, 1000 + kills));
    over.fail_and_retry(0, {0, SIGKILL});
    REQUIRE(kills < 10);
  }
  CHECK(kills == 4);
  CHECK(over.ended_with() == 93);
  for (const bool has_steps : {true, false}) {
    Bench on(a_job().on_nodes(1).restarts(100).no_progress_cycles(3));
    for (int i = 1; i <= 10; ++i) {
      on.progress(0, saved(has_steps ? 30 * i : CheckpointRef::no_step, 1000 + i));
      on.fail_and_retry(0, {0, SIGKILL});
      REQUIRE(on.is_live());
    }
  }
}

TEST_CASE("after wrong results of hardware another program's checkpoints are not guessed about") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(30, CheckpointRef{30, "/out/ckpt_30.pt", "torch", 1000});
  bench.fail_and_retry(0, {3, 0}, "muster-train: rank 0 on h01: hardware in doubt: odd weights");
  CHECK(bench.ended_with() == 93);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("the newest is /out/ckpt_30.pt"));
}

TEST_CASE("different early exits are not the same failure") {
  Bench bench(a_job().on_nodes(1));
  bench.fail_and_retry(0, {1, 0});
  bench.fail_and_retry(0, {0, SIGSEGV});
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a command that cannot be run stops the job at once with the shell's own code") {
  const int code = GENERATE(126, 127);
  Bench bench(a_job().on_nodes(1));
  bench.fail_and_retry(0, {code, 0});
  CHECK(bench.ended_with() == code);
}

TEST_CASE("without restarts the job ends with the rank's own code") {
  Bench bench(a_job().on_nodes(1).restarts(0));
  SECTION("an exit code") {
    bench.fail_and_retry(0, {42, 0});
    CHECK(bench.ended_with() == 42);
  }
  SECTION("a signal") {
    bench.fail_and_retry(0, {0, SIGSEGV});
    CHECK(bench.ended_with() == 139);
  }
  SECTION("a code that muster uses itself") {
    bench.fail_and_retry(0, {91, 0});
    CHECK(bench.ended_with() == 1);
  }
}

TEST_CASE("a rank that exits with 93 is not restarted") {
  Bench bench(a_job().on_nodes(1));
  bench.progress(10, sealed(10));
  bench.fail_and_retry(0, {93, 0});
  CHECK(bench.ended_with() == 93);
}

TEST_CASE("a used up restart budget gives up with 93, and frees itself with time") {
  Bench bench(a_job().on_nodes(1).restarts(2));
  const auto fail_at = [&](int step) {
    bench.progress(step, sealed(step, bench.attempt().id.value + 1));
    bench.fail_and_retry(0, {1, 0});
  };
  SECTION("inside the interval") {
    fail_at(1);
    fail_at(2);
    CHECK(bench.is_in<Running>());
    fail_at(3);
    CHECK(bench.ended_with() == 93);
    CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("muster.restart.attempts"));
  }
  SECTION("over a longer time") {
    for (int step = 1; step <= 6; ++step) {
      bench.pass(Seconds{3600});
      fail_at(step);
    }
    CHECK(bench.is_in<Running>());
  }
}

TEST_CASE("restarts without a newer checkpoint stop after muster.no_progress.cycles") {
  Bench bench(a_job().on_nodes(1).restarts(100).no_progress_cycles(3));
  int attempts = 1;
  while (bench.is_live()) {
    bench.progress(50 - attempts);  // starts over each time
    bench.fail_and_retry(0, {1, 0});
    ++attempts;
    REQUIRE(attempts < 10);
  }
  CHECK(bench.ended_with() == 93);
  CHECK(bench.count<LaunchBegun>() == 4);
  CHECK_THAT(bench.last<JobEnded>()->reason,
             ContainsSubstring("3 restarts without a newer checkpoint or a step above 49"));
}

TEST_CASE("a restart that passes the step of all attempts before it is progress") {
  Bench bench(a_job().on_nodes(1).restarts(100).no_progress_cycles(3));
  for (const int step : {50, 50, 49, 51, 51, 20, 52}) {  // two in a row do not pass it, then one
    bench.progress(step);
    bench.fail_and_retry(0, {1, 0});
    REQUIRE(bench.is_live());
  }
  for (const int step : {52, 1}) {
    bench.progress(step);
    bench.fail_and_retry(0, {1, 0});
    REQUIRE(bench.is_live());
  }
  bench.progress(52);
  bench.fail_and_retry(0, {1, 0});
  CHECK(bench.ended_with() == 93);
}

TEST_CASE("a lost node is charged to reschedule, avoided, and used again when there is no other") {
  Bench bench(a_job().on_nodes(4));
  bench.unlink(2);
  bench.link(2, 2);
  bench.obey();
  CHECK(bench.last<RetryScheduled>()->reschedule);
  CHECK(bench.last<RetryScheduled>()->avoid == std::vector<NodeId>{NodeId{"h02"}});
  bench.obey_after(Seconds{10});
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h02", "h03", "h04"});
}

TEST_CASE("a used up reschedule budget ends with 92") {
  Bench bench(a_job().on_nodes(1).of_cluster(1).reschedules(2).no_progress_cycles(100));
  for (int agent = 2; agent < 5; ++agent) {
    REQUIRE(bench.is_in<Running>());
    bench.link(1, agent);
    bench.obey();
    bench.obey_after(Seconds{60});
  }
  CHECK(bench.ended_with() == 92);
}

TEST_CASE("starts that fail are bounded by the reschedule budget, not by missing progress") {
  Bench bench(a_job().on_nodes(1).reschedules(5), 4);
  while (bench.is_live()) {
    if (bench.is_in<Starting>()) {
      const Attempt& attempt = bench.attempt();
      bench.observe(NodeStarted{JobId{"train"}, attempt.id, attempt.nodes[0].id, "no namespace"});
    }
    if (const auto works = pending_work(bench.state); !works.empty()) {
      bench.obey(works.front());
    } else {
      bench.pass(Seconds{10});
    }
    REQUIRE(bench.count<LaunchBegun>() < 10);
  }
  CHECK(bench.count<LaunchBegun>() == 6);
  CHECK(bench.ended_with() == 92);
}

TEST_CASE("a rule decides before the class") {
  Bench bench;
  auto stop_rule = on_exit(42);
  stop_rule.action = Reaction::stop;
  bench.start(a_job().on_nodes(1).rule(on_exit(7)).rule(stop_rule));
  bench.fail_and_retry(0, {42, 0});
  CHECK(bench.ended_with() == 42);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("rule 2 (job): class user: stop"));
}

TEST_CASE("a rule gives a failure another class") {
  Bench bench;
  auto rule = on_exit(7);
  rule.failure_class = FailureClass::hw;
  bench.start(a_job().on_nodes(1).rule(rule));
  bench.fail_and_retry(0, {7, 0});
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::hw);
  CHECK(bench.last<RetryScheduled>()->exclude);
  CHECK(bench.nodes() == std::vector<std::string>{"h02"});
}

TEST_CASE("an excluded node is never used again") {
  Bench bench;
  auto rule = on_exit(7);
  rule.action = Reaction::exclude_node;
  bench.start(a_job().on_nodes(1).of_cluster(1).rule(rule));
  bench.fail_and_retry(0, {7, 0});
  CHECK(bench.ended_with() == 91);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("h01 was excluded from this job"));
}

TEST_CASE("a rule that only logs is mentioned and does not decide") {
  Bench bench;
  auto rule = on_exit(7);
  rule.action = Reaction::stop;
  rule.enforce = false;
  bench.start(a_job().on_nodes(1).rule(rule));
  bench.fail_and_retry(0, {7, 0});
  CHECK(bench.is_in<Running>());
  CHECK_THAT(bench.last<RetryScheduled>()->rule, ContainsSubstring("class user; rule 1 only logs"));
}

TEST_CASE("the action of a class can be set") {
  Bench bench;
  auto job = a_job().on_nodes(1);
  job.spec().muster.class_actions["user"] = Reaction::stop;
  bench.start(job);
  bench.fail_and_retry(0, {5, 0});
  CHECK(bench.ended_with() == 5);
}

TEST_CASE("a preempted job that may not go on says whether its work was saved") {
  const bool saved = GENERATE(false, true);
  Bench bench;
  auto job = a_job().on_nodes(1);
  job.spec().muster.class_actions["preempted"] = Reaction::stop;
  bench.start(job);
  if (saved) bench.progress(10, sealed(10));
  bench.drain(1, true, Seconds{0});
  bench.obey();
  CHECK(bench.ended_with() == (saved ? 96 : 97));
}

TEST_CASE("three hangs in a row end with 95") {
  Bench bench;
  auto rule = on_exit(7);
  rule.failure_class = FailureClass::hang;
  bench.start(a_job().on_nodes(1).rule(rule).no_progress_cycles(10));
  for (int i = 0; i < 3; ++i) bench.fail_and_retry(0, {7, 0});
  CHECK(bench.ended_with() == 95);
}

TEST_CASE("backoff grows as it is asked to, up to its limit") {
  RestartSettings settings;
  settings.delay = Seconds{5};
  settings.max_delay = Seconds{60};
  const auto delays = [&](DelayFunction function) {
    settings.delay_function = function;
    std::vector<long> seconds;
    for (int n = 1; n <= 6; ++n) seconds.push_back(retry_delay(settings, n).count() / 1000);
    return seconds;
  };
  CHECK(delays(DelayFunction::constant) == std::vector<long>{5, 5, 5, 5, 5, 5});
  CHECK(delays(DelayFunction::exponential) == std::vector<long>{5, 10, 20, 40, 60, 60});
  CHECK(delays(DelayFunction::fibonacci) == std::vector<long>{5, 5, 10, 15, 25, 40});
  CHECK(retry_delay(settings, 1'000'000) == settings.max_delay);
}

TEST_CASE("jitter stays within a fifth and is the same every time") {
  for (int attempt = 0; attempt < 200; ++attempt) {
    const auto delay = with_jitter(Seconds{10}, JobId{"x"}, AttemptId{attempt});
    CHECK(delay >= Seconds{8});
    CHECK(delay <= Seconds{12});
    CHECK(delay == with_jitter(Seconds{10}, JobId{"x"}, AttemptId{attempt}));
  }
  CHECK(with_jitter(Seconds{10}, JobId{"x"}, AttemptId{0}) !=
        with_jitter(Seconds{10}, JobId{"y"}, AttemptId{0}));
}

TEST_CASE("no pause is longer than restart.max_delay, jitter included") {
  int at_most = 0;
  for (int i = 0; i < 20; ++i) {
    Bench bench;
    const std::string name = "train" + std::to_string(i);
    auto job = a_job(name).on_nodes(1);
    job.spec().muster.restart.delay = job.spec().muster.restart.max_delay = Seconds{10};
    bench.start(job);
    bench.exit_and_obey(0, {3, 0}, {}, name);  // its first restart waits for nothing
    bench.exit_and_obey(0, {4, 0}, {}, name);
    REQUIRE(bench.last<RetryScheduled>());
    const auto pause = bench.last<RetryScheduled>()->at - bench.now;
    CHECK(pause <= Seconds{10});
    at_most += pause == Seconds{10} ? 1 : 0;
  }
  CHECK(at_most > 0);
}

TEST_CASE("only two failures alike before any progress, one after the other, give up") {
  Bench bench(a_job().on_nodes(1).restarts(9).reschedules(9).no_progress_cycles(9));
  SECTION("the first came after progress") {
    bench.progress(10, sealed(10));
    bench.fail_and_retry(0, {1, 0});
    bench.fail_and_retry(0, {1, 0});
  }
  SECTION("the second came after progress") {
    bench.fail_and_retry(0, {1, 0});
    bench.progress(10, sealed(10));
    bench.fail_and_retry(0, {1, 0});
  }
  SECTION("another code") {
    bench.fail_and_retry(0, {1, 0});
    bench.fail_and_retry(0, {2, 0});
  }
  SECTION("another signal") {
    bench.fail_and_retry(0, {0, SIGSEGV});
    bench.fail_and_retry(0, {0, SIGBUS});
  }
  SECTION("another in between") {
    for (const int code : {1, 2, 1, 2}) bench.fail_and_retry(0, {code, 0});
  }
  SECTION("one of them was the node's") {
    bench.fail_and_retry(0, {1, 0}, "OSError: [Errno 28] No space left on device");
    bench.fail_and_retry(0, {1, 0});
  }
  CHECK(bench.is_in<Running>());
}

TEST_CASE("the first restart of a job waits for nothing, the second as long as it always did") {
  Bench bench(a_job().on_nodes(1).restarts(9));
  bench.exit_and_obey(0, {3, 0});
  CHECK(bench.last<RetryScheduled>()->at == bench.now);
  CHECK_THAT(bench.last<RetryScheduled>()->rule, ContainsSubstring("after 0 s"));
  CHECK(bench.is_in<Running>());
  const RestartSettings delays = bench.job().spec.muster.restart;
  const AttemptId second = bench.attempt().id;
  bench.exit_and_obey(0, {4, 0});
  CHECK(bench.last<RetryScheduled>()->at - bench.now ==
        with_jitter(retry_delay(delays, 2), JobId{"train"}, second));
}

TEST_CASE("the pause grows with each failure in a row, and begins again after progress") {
  Bench bench;
  auto job = a_job().on_nodes(1).restarts(99).no_progress_cycles(99);
  job.spec().muster.restart.max_delay = Seconds{1000};
  bench.start(job);
  const RestartSettings delays = bench.job().spec.muster.restart;
  const auto fails_with_pause = [&](int code, int in_a_row) {
    const AttemptId attempt = bench.attempt().id;
    bench.exit_and_obey(0, {code, 0});
    const auto pause = bench.last<RetryScheduled>()->at - bench.now;
    const bool is_first = bench.job().past.size() == 1;
    const Milliseconds grown = with_jitter(retry_delay(delays, in_a_row), JobId{"train"}, attempt);
    CHECK(pause == (is_first ? Milliseconds{0} : grown));
    bench.obey_after(Seconds{1000});
  };
  fails_with_pause(1, 1);
  fails_with_pause(2, 2);
  fails_with_pause(3, 3);
  bench.progress(10, sealed(10, 4));
  fails_with_pause(4, 1);
  fails_with_pause(5, 2);
}
