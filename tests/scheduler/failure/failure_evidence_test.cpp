// Lines of output are as the libraries print them: torch 2.1 (Gloo, NCCL 2.19), CPython 3.11,
// glibc 2.36, bash 5.2.
#include "scheduler/failure/first_failure.h"

#include <csignal>

#include "tests/catch.h"

using namespace muster;

namespace {

RankExited exited(ExitStatus status, std::vector<std::string> lines = {}) {
  RankExited exit;
  exit.status = status;
  exit.last_lines = std::move(lines);
  return exit;
}

Judgement judged(const RankExited& exit) {
  return judge(exit, false, true);
}

}  // namespace

TEST_CASE("a rank that was left by its peer is a consequence") {
  const std::vector<std::string> lines{
      GENERATE("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection "
               "closed by peer [127.0.0.1]:31234",
               "ncclRemoteError: A call failed possibly due to a network error or a remote process "
               "exiting prematurely.",
               "socketProgress: Connection closed by remote peer n3<41234>",
               "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)",
               "ConnectionResetError: [Errno 104] Connection reset by peer",
               "BrokenPipeError: [Errno 32] Broken pipe", "read: ECONNRESET")};
  const std::vector<std::string> text{"Traceback (most recent call last):", lines.front()};
  CHECK(judged(exited({1, 0}, text)).standing == Standing::consequence);
  CHECK(judged(exited({0, SIGABRT}, text)).standing == Standing::consequence);
  CHECK(judged(exited({0, SIGABRT}, text)).evidence.front() == "blames a peer: " + lines.front());
}

TEST_CASE("a signal of its own proves a failure, also when a shell reports it") {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGKILL, SIGTERM}) {
    CHECK(judged(exited({0, signal})).standing == Standing::proven);
    CHECK(judged(exited({128 + signal, 0})).standing == Standing::proven);
    CHECK_FALSE(judged(exited({0, signal}, {"ValueError: x"})).exits_late);
  }
}

TEST_CASE("a rank that blames a peer and then crashes may be either") {
  CHECK(judged(exited({0, SIGSEGV}, {"Connection reset by peer"})).standing == Standing::unclear);
}

TEST_CASE("words that a rule takes for an echo leave it open whose failure it was") {
  RankExited exit = exited({1, 0}, {"DistNetworkError: Failed to recv, got 0 bytes"});
  CHECK(judged(exit).standing == Standing::silent);
  exit.rules.rule = MatchedRule{};
  exit.rules.rule->id = "store-lost";
  CHECK(judged(exit).standing == Standing::silent);
  exit.rules.rule->cascade = true;
  CHECK(judged(exit).standing == Standing::unclear);
  CHECK(judged(exit).evidence.front() == "may be a secondary failure: rule store-lost (default)");
  exit.status = {0, SIGABRT};
  CHECK(judged(exit).standing == Standing::unclear);
}

TEST_CASE("words of its own prove a failure, and an end that came some time after it") {
  const Judgement own = judged(exited({1, 0}, {"Traceback", "KeyError: 'text'"}));
  CHECK(own.standing == Standing::proven);
  CHECK(own.exits_late);
  CHECK(own.evidence ==
        std::vector<std::string>{"its last output: KeyError: 'text'", "exit code 1"});
}

TEST_CASE("an error of its own beside one of a peer may be old, or the peer's one of cleaning up") {
  const std::vector<std::string> lines{"ValueError: x", "Broken pipe"};
  CHECK(judged(exited({1, 0}, lines)).standing == Standing::unclear);
  CHECK(judged(exited({0, SIGABRT}, lines)).standing == Standing::unclear);
  CHECK(judged(exited({1, 0}, lines)).evidence.size() == 3);
}

TEST_CASE("an error that was mended is no word of its own") {
  const std::vector<std::string> told{"WARNING skipped sample 7: ValueError: bad shape"};
  CHECK(judged(exited({1, 0}, told)).standing == Standing::silent);
  std::vector<std::string> logged{"Traceback (most recent call last):", "ValueError: bad shape"};
  CHECK(judged(exited({1, 0}, logged)).standing == Standing::proven);
  for (int step = 1; step <= 6; ++step) logged.push_back("step " + std::to_string(step));
  CHECK(judged(exited({1, 0}, logged)).standing == Standing::silent);
}

TEST_CASE("exceptions are known with their module and with the label of their rank") {
  for (const char* line : {"torch.cuda.OutOfMemoryError: CUDA", "[rank3]: KeyError: 'x'",
                           "AssertionError", "numpy.core._exceptions._ArrayMemoryError: Unable"}) {
    CHECK(judged(exited({1, 0}, {line})).standing == Standing::proven);
  }
  CHECK(judged(exited({1, 0}, {"RuntimeError: something"})).standing == Standing::silent);
}

TEST_CASE("any exception after a traceback is told, and proves nothing") {
  RankExited exit = exited({1, 0}, {"[rank0]:   File \"t.py\", line 3, in f", "[rank0]:     g()",
                                    "[rank0]: RuntimeError: shape: a b", "W1 a warning: of torch",
                                    "destroy_process_group() was not called", "a b", "c", "d"});
  CHECK(judged(exit).standing == Standing::silent);
  CHECK(judged(exit).evidence.front() ==
        "its last exception: [rank0]: RuntimeError: shape: a b");
  CHECK(judged(exited({1, 0}, {"RuntimeError: said by nobody"})).evidence.size() == 1);
  const auto twice = exited({1, 0}, {"  File \"t.py\", line 3, in f", "RuntimeError: first",
                                     "Traceback (most recent call last):",
                                     "  File \"t.py\", line 5, in g", "RuntimeError: last"});
  CHECK(judged(twice).evidence.front() == "its last exception: RuntimeError: last");
}

TEST_CASE("a rank that was stopped is judged by its last words only") {
  const ExitStatus stopped{0, SIGTERM};
  REQUIRE(judge_stopped(exited(stopped, {"Traceback", "KeyError: 'text'"})));
  CHECK(judge_stopped(exited(stopped, {"KeyError: 'text'"}))->standing == Standing::proven);
  CHECK(judge_stopped(exited(stopped, {"KeyError: 'text'"}))->exits_late);
  CHECK_FALSE(judge_stopped(exited(
      stopped, {"KeyError: 'text'", "step 1", "step 2", "step 3", "step 4", "step 5", "step 6"})));
  CHECK_FALSE(judge_stopped(exited(stopped, {"KeyError: 'text'", "Broken pipe"})));
  CHECK_FALSE(judge_stopped(exited(stopped, {"Broken pipe"})));
  CHECK_FALSE(judge_stopped(exited(stopped)));
}

TEST_CASE("a failed assertion is the program's own, with the condition in its middle") {
  const auto exit = exited({0, SIGABRT}, {"a.out: a.c:3: main: Assertion `x > 0' failed."});
  CHECK(judged(exit).evidence.front() == "its last output: " + exit.last_lines.front());
  CHECK(judged(exit).standing == Standing::proven);
}

TEST_CASE("an exit without a word is silent") {
  const Judgement judgement = judged(exited({1, 0}, {"epoch 3 begins"}));
  CHECK(judgement.standing == Standing::silent);
  CHECK_FALSE(judgement.exits_late);
}

TEST_CASE("what mpirun ended is a consequence of what ended mpirun") {
  CHECK(judge(exited({0, SIGTERM}), true, true).standing == Standing::consequence);
  RankExited with_mpirun = exited({0, SIGKILL});
  with_mpirun.evidence.with_mpirun = true;
  CHECK(judge(with_mpirun, true, true).standing == Standing::consequence);
  CHECK(judge(exited({0, SIGSEGV}), true, true).standing == Standing::proven);
}

TEST_CASE("who had said what was wrong was ending when mpirun ended it") {
  const std::vector<std::string> words{"KeyError: 'text'"};
  RankExited with_mpirun = exited({0, SIGKILL}, words);
  with_mpirun.evidence.with_mpirun = true;
  for (const RankExited& exit : {exited({0, SIGTERM}, words), with_mpirun}) {
    CHECK(judge(exit, true, true).standing == Standing::proven);
    CHECK(judge(exit, true, true).exits_late);
  }
  const RankExited of_peer = exited({0, SIGTERM}, {"KeyError: 'text'", "Broken pipe"});
  CHECK(judge(of_peer, true, true).standing == Standing::consequence);
}

TEST_CASE("only the rank whose hardware is in doubt is to blame for it") {
  const auto says = [](const std::string& text) { return exited({3, 0}, {"step 8", text}); };
  CHECK(
      judged(says("muster-train: rank 2 on h03: hardware in doubt: its weights differ")).standing ==
      Standing::proven);
  CHECK(judged(says("muster-train: ends because the hardware of rank 2 is in doubt")).standing ==
        Standing::consequence);
  CHECK(judged(says("muster-train: hardware in doubt: the weights of the ranks differ")).standing ==
        Standing::consequence);
}

TEST_CASE("the kernel's word on memory stands before all others") {
  RankExited exit = exited({0, SIGKILL}, {"Connection reset by peer"});
  exit.status.core_dumped = true;
  exit.evidence.oom = "the kernel's log: Out of memory: Killed process 7 (python3)";
  exit.evidence.last_step = 412;
  const Judgement judgement = judged(exit);
  CHECK(judgement.standing == Standing::proven);
  CHECK(judgement.evidence ==
        std::vector<std::string>{exit.evidence.oom, "blames a peer: Connection reset by peer",
                                 "signal 9 (SIGKILL), core dumped", "its last step was 412"});
}

TEST_CASE("what a program wrote into its error file is the first evidence") {
  RankExited exit = exited({1, 0}, {"Traceback (most recent call last):", "ValueError: short"});
  exit.evidence.error = "ValueError: shard 7 is short";
  const Judgement judgement = judged(exit);
  REQUIRE_FALSE(judgement.evidence.empty());
  CHECK(judgement.evidence[0] == "its error file says: ValueError: shard 7 is short");
}

TEST_CASE("a rank without peers is nobody's consequence") {
  CHECK(judge(exited({1, 0}, {"Connection reset by peer"}), false, false).standing ==
        Standing::silent);
}
