#include <csignal>

#include "scheduler/state/lookup.h"
#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr Milliseconds day{24 * 3'600'000};

// A job on this node alone, which the node breaks by losing its agent.
void break_job(Bench& bench, const std::string& name, int number, int cluster = 8) {
  auto job = a_job(name).on_nodes(1).of_cluster(cluster).reschedules(0);
  job.spec().muster.include_nodes = {node_name(number)};
  bench.submit(job);
  static int agents = 10;
  bench.link(number, ++agents);
  bench.obey();
  REQUIRE(bench.is_in<Running>(name));
  bench.link(number, ++agents);
  bench.obey();
  REQUIRE(!bench.is_live(name));
}

constexpr const char* gloo_lost_peer =
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer "
    "[10.0.0.1]:39841";

NodeEvidence piece(const std::string& job, Milliseconds age, Time now) {
  return {JobId{job}, now - age, "was lost"};
}

}  // namespace

TEST_CASE("what speaks against a node weighs half after a week, and a job counts once") {
  const Time now = from_ms(1'000'000'000'000);
  CHECK(failure_score_of({piece("a", day * 0, now)}, now) == 1000);
  CHECK(failure_score_of({piece("a", day * 7, now)}, now) == 500);
  CHECK(failure_score_of({piece("a", day * 14, now)}, now) == 250);
  CHECK(failure_score_of({piece("a", day * 7, now), piece("b", day * 0, now)}, now) == 1500);
  CHECK(failure_score_of({piece("a", day * 400, now)}, now) == 0);
  const auto twice = with_evidence({piece("a", day, now)}, piece("a", day * 0, now));
  CHECK(twice.size() == 1);
  CHECK(failure_score_of(twice, now) == 1000);
}

TEST_CASE("a node that was lost under a job is remembered when the job is gone, and used last") {
  Bench bench;
  break_job(bench, "one", 1);
  REQUIRE(bench.node(1).evidence.size() == 1);
  CHECK(bench.node(1).evidence[0].job == JobId{"one"});
  CHECK_THAT(bench.node(1).evidence[0].what, ContainsSubstring("lost its ranks"));
  bench.submit(a_job("next").on_nodes(2).of_cluster(3));
  CHECK(bench.nodes("next") == Names{"h02", "h03"});
  bench.submit(a_job("last").on_nodes(1).of_cluster(3));
  CHECK(bench.nodes("last") == Names{"h01"});
}

TEST_CASE("a rank's own failure, a cancel, a drain and a time limit say nothing against a node") {
  Bench bench(a_job().on_nodes(1).restarts(0));
  SECTION("a failure") {
    bench.exit_rank(0, {0, SIGSEGV});
  }
  SECTION("a cancel") {
    bench.cancel();
  }
  SECTION("a drain") {
    bench.drain(1, true, Seconds{0});
  }
  bench.obey();
  CHECK(bench.count<NodeSuspected>() == 0);
}

TEST_CASE("an agent that was left without its controller says nothing against its node") {
  Bench bench(a_job().on_nodes(1));
  RankExited exit{JobId{"train"}, AttemptId{0}, NodeId{"h01"},           RankId{0},
                  {0, SIGKILL},   true,         to_ms(bench.now) - 5000, {}};
  bench.observe(exit);
  bench.obey();
  CHECK(bench.last<AttemptEnded>()->cause.first_node == NodeId{"h01"});
  CHECK(bench.count<NodeSuspected>() == 0);
}

TEST_CASE("a node that breaks three jobs in a few days is set aside until that has faded") {
  Bench bench;
  break_job(bench, "one", 1);
  bench.pass(day);
  break_job(bench, "two", 1);
  CHECK(bench.count<NodeSetAside>() == 0);
  bench.pass(day);
  break_job(bench, "three", 1);
  CHECK(bench.the<NodeSetAside>().node == NodeId{"h01"});
  CHECK_THAT(bench.last<NodeSetAside>()->reason, ContainsSubstring("it broke 3 jobs (one: "));
  bench.submit(a_job("next").on_nodes(8).of_cluster(8));
  CHECK_THAT(std::get<Queued>(bench.job("next").phase).reason,
             ContainsSubstring("h01 was cordoned by muster: it broke 3 jobs"));
  bench.pass(bench.last<NodeSetAside>()->until - bench.now + Seconds{1});
  CHECK(bench.nodes("next").size() == 8);
}

TEST_CASE("the same job broken again and again is one piece of evidence") {
  Bench bench(a_job().on_nodes(1).of_cluster(2).no_progress_cycles(100));
  for (int agent = 2; agent < 8; ++agent) {
    bench.progress(agent, sealed(agent));
    const std::string on = bench.nodes().front();
    bench.link(on == "h01" ? 1 : 2, agent);
    bench.obey();
    bench.obey_after(Seconds{200});
  }
  CHECK(bench.count<NodeSuspected>() >= 4);
  CHECK(bench.count<NodeSetAside>() == 0);
}

TEST_CASE("undraining a node clears it") {
  Bench bench;
  for (const char* job : {"one", "two", "three"}) break_job(bench, job, 1);
  REQUIRE(bench.last<NodeSetAside>());
  bench.drain(1, false);
  CHECK(bench.node(1).evidence.empty());
  bench.submit(a_job("next").on_nodes(8).of_cluster(8));
  CHECK(bench.nodes("next").size() == 8);
}

TEST_CASE("the last node of its target that is in use is not set aside") {
  Bench bench;
  for (const char* job : {"one", "two", "three"}) break_job(bench, job, 1, 2);
  CHECK(bench.count<NodeSetAside>() == 1);
  for (const char* job : {"four", "five", "six"}) break_job(bench, job, 2, 2);
  CHECK(bench.node(2).evidence.size() == 3);
  CHECK(bench.count<NodeSetAside>() == 1);
}

TEST_CASE("the breaker opens before a third node of a small target is set aside within minutes") {
  Bench bench;
  for (int number = 1; number <= 4; ++number) {
    for (const char* job : {"a", "b", "c"}) break_job(bench, job + std::to_string(number), number);
  }
  CHECK(bench.count<NodeSetAside>() == 2);
  REQUIRE(bench.count<BreakerOpened>() == 1);
  CHECK(bench.last<BreakerOpened>()->target == "lab");
  CHECK_THAT(bench.last<BreakerOpened>()->reason, ContainsSubstring("more than 2 nodes of lab"));

  SECTION("it stays open until somebody resets it") {
    bench.pass(day / 2);
    break_job(bench, "late", 5);
    for (const char* job : {"d", "e", "f"}) break_job(bench, job, 6);
    CHECK(bench.count<NodeSetAside>() == 2);
  }
  SECTION("older findings count no more after that") {
    bench.pass(Seconds{3600});
    bench.observe(BreakerReset{"lab"});
    bench.pass(Seconds{1});
    break_job(bench, "d", 3);
    CHECK(bench.count<NodeSetAside>() == 2);
    for (const char* job : {"e", "f"}) break_job(bench, job, 3);
    CHECK(bench.count<NodeSetAside>() == 3);
  }
}

TEST_CASE("nodes that are set aside slowly do not open the breaker") {
  Bench bench;
  for (int number = 1; number <= 4; ++number) {
    for (const char* job : {"a", "b", "c"}) break_job(bench, job + std::to_string(number), number);
    bench.pass(Seconds{700});
  }
  CHECK(bench.count<NodeSetAside>() == 4);
  CHECK(bench.count<BreakerOpened>() == 0);
}

TEST_CASE("a start that failed counts against the node only when it succeeds elsewhere") {
  Bench bench;
  const bool elsewhere = GENERATE(true, false);
  bench.submit(a_job().on_nodes(1).of_cluster(2).no_progress_cycles(9));
  bench.link_all(2);
  for (int tries = 0; tries < (elsewhere ? 1 : 2); ++tries) {
    for (auto works = pending_work(bench.state); !works.empty();
         works = pending_work(bench.state)) {
      const NodeWork& work = works.front();
      if (std::holds_alternative<StageWork>(work.work)) {
        bench.observe(NodeStaged{work.job, work.attempt, work.node, "too many files"});
      } else {
        bench.obey(work);
      }
      if (bench.count<AttemptEnded>() > tries) break;
    }
    bench.pass(Seconds{300});
  }
  CHECK(bench.count<NodeSuspected>() == 0);
  if (!elsewhere) return;
  bench.obey();
  REQUIRE(bench.is_in<Running>());
  CHECK(bench.nodes() == Names{"h02"});
  REQUIRE(bench.node(1).evidence.size() == 1);
  CHECK_THAT(bench.node(1).evidence[0].what, ContainsSubstring("too many files"));
}

TEST_CASE("words that may be the echo of another's failure speak against no node") {
  Bench bench;
  const bool alone = GENERATE(false, true);
  bench.start(a_job().on_nodes(alone ? 1 : 3).of_cluster(6));
  bench.exit_and_obey(0, {1, 0}, {}, "train",
                      "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/"
                      "transport/tcp/pair.cc:144] no error");
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.failure_class == FailureClass::infra);
  CHECK(cause.first_node.has_value() == alone);
  CHECK(bench.last<RetryScheduled>()->avoid.empty() == !alone);
  bench.obey_after(Seconds{600});
  bench.progress(1);
  CHECK(bench.count<NodeSuspected>() == 0);
}

TEST_CASE("peers of a rank that returned early are struck nowhere") {
  Bench bench(a_job().on_nodes(4).of_cluster(8));
  bench.exit_rank(0, {0, 0}, Milliseconds{900});
  for (int rank = 1; rank < 4; ++rank) {
    bench.exit_rank(rank, {1, 0}, Milliseconds{600 - 200 * (rank - 1)}, "train", gloo_lost_peer);
  }
  bench.obey();
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.first_rank == RankId{0});
  CHECK_FALSE(cause.first_node);
  CHECK(cause.failure_class == FailureClass::user);
  CHECK(cause.status.code == 1);
  CHECK_THAT(cause.sentence,
             ContainsSubstring("rank 0 on h01 ended with 0 while its peers went on "));
  CHECK_THAT(cause.sentence, ContainsSubstring("before any other; 3 failed afterwards"));
  CHECK(bench.last<RetryScheduled>()->avoid.empty());
  CHECK(bench.count<NodeSuspected>() == 0);
}

TEST_CASE("who ended with 0 is the cause only of peers that lost it") {
  Bench bench(a_job().on_nodes(4).of_cluster(8));
  const std::string lost = gloo_lost_peer;
  SECTION("a rank that failed by itself is") {
    bench.exit_rank(0, {0, 0}, Milliseconds{900});
    bench.exit_rank(1, {1, 0}, Milliseconds{600}, "train", "KeyError: 'x'");
    bench.exit_rank(2, {1, 0}, Milliseconds{400}, "train", lost);
    bench.obey();
    CHECK(bench.last<AttemptEnded>()->cause.first_rank == RankId{1});
  }
  SECTION("not of what lost a service elsewhere") {
    bench.exit_rank(0, {0, 0}, Milliseconds{900});
    for (int rank = 1; rank < 3; ++rank) {
      bench.exit_rank(rank, {1, 0}, Milliseconds{400}, "train",
                      "ConnectionResetError: [Errno 104] Connection reset by peer");
    }
    bench.obey();
    CHECK_FALSE(bench.last<AttemptEnded>()->cause.first_rank);
  }
  SECTION("not at the end of a run, when most have ended with 0") {
    for (int rank = 0; rank < 3; ++rank) bench.exit_rank(rank, {0, 0}, Milliseconds{900});
    bench.exit_rank(3, {1, 0}, Milliseconds{400}, "train", lost);
    bench.obey();
    CHECK_FALSE(bench.last<AttemptEnded>()->cause.first_rank);
  }
  SECTION("not when a peer had failed before it ended") {
    bench.exit_rank(1, {1, 0}, Milliseconds{900}, "train", lost);
    bench.exit_rank(0, {0, 0}, Milliseconds{600});
    bench.exit_rank(2, {1, 0}, Milliseconds{400}, "train", lost);
    bench.obey();
    CHECK_FALSE(bench.last<AttemptEnded>()->cause.first_rank);
  }
  CHECK(bench.count<NodeSuspected>() == 0);
}

TEST_CASE("a hang counts against a node only when the job has stepped without it") {
  Bench bench(a_job().on_nodes(1).of_cluster(2).no_progress_cycles(9));
  const auto hang = [&] {
    StallSeen stall;
    stall.job = JobId{"train"};
    stall.attempt = bench.attempt().id;
    stall.stall = StallKind::hung;
    stall.rank = RankId{0};
    stall.blamed = NodeId{bench.nodes().front()};
    bench.observe(stall);
    bench.obey();
  };
  hang();
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::hang);
  CHECK(bench.count<NodeSuspected>() == 0);
  bench.obey_after(Seconds{600});
  REQUIRE(bench.nodes() == Names{"h02"});
  SECTION("a program that hangs anywhere") {
    hang();
    CHECK(bench.count<NodeSuspected>() == 0);
  }
  SECTION("one that goes on elsewhere") {
    bench.progress(1);
    CHECK(bench.node(1).evidence.size() == 1);
    CHECK(bench.node(2).evidence.empty());
  }
}

TEST_CASE("several ranks of one node that failed by themselves name their node") {
  Bench bench(a_job().on_nodes(2).ranks_per_node(2).of_cluster(4));
  for (const int rank : {2, 3}) {
    bench.exit_rank(rank, {1, 0}, {}, "train", "RuntimeError: uncorrectable ECC error encountered");
  }
  bench.obey();
  CHECK(!bench.last<AttemptEnded>()->cause.first_rank);
  CHECK(bench.last<AttemptEnded>()->cause.first_node == NodeId{"h02"});
  CHECK(bench.node(2).evidence.size() == 1);
}

TEST_CASE("a program's own word on its node counts only when the job has worked elsewhere") {
  Bench bench(a_job().on_nodes(1).of_cluster(2).no_progress_cycles(9));
  const char* words = "socket.gaierror: [Errno -2] Name or service not known";
  bench.fail_and_retry(0, {1, 0}, words);
  REQUIRE(bench.is_in<Running>());
  CHECK(bench.nodes() == Names{"h02"});
  CHECK(bench.count<NodeSuspected>() == 0);
  SECTION("it fails there too") {
    bench.fail_and_retry(0, {1, 0}, words);
    CHECK(bench.count<NodeSuspected>() == 0);
  }
  SECTION("it makes a step there") {
    bench.progress(1);
    CHECK(bench.node(1).evidence.size() == 1);
  }
  SECTION("it finishes there") {
    bench.finish();
    CHECK(bench.node(1).evidence.size() == 1);
  }
}
