#include "scheduler/explain/explain.h"
#include "scheduler/explain/summary.h"
#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

TEST_CASE("a healthy gang is staged, reserves its port on node 0, is launched and runs") {
  Bench bench(a_job().on_nodes(2), 2);
  bench.obey_until<Staging>();
  CHECK(bench.owes<StageWork>(1));
  bench.obey_until<Reserving>();
  CHECK(bench.owes<ReserveWork>(1));
  CHECK(!pending_work(bench.state, NodeId{"h02"}));
  bench.obey_until<Starting>();
  CHECK(bench.owes<StartWork>(1));
  CHECK(bench.owes<StartWork>(2));
  bench.obey_until<Running>();
  CHECK(pending_work(bench.state).empty());
}

TEST_CASE("a job whose ranks do not meet, or that names its port, reserves none") {
  Bench bench(a_job("alone").on_nodes(1).without_distribution());
  auto fixed = a_job("fixed").on_nodes(1);
  fixed.spec().muster.master_port = 6105;
  bench.submit(fixed);
  bench.obey();
  CHECK(bench.is_in<Running>("fixed"));
  CHECK(bench.count<PortsAsked>() == 0);
}

TEST_CASE("a node that cannot be prepared ends the attempt without touching the others") {
  Bench bench(a_job().on_nodes(2), 2);
  bench.obey_until<Staging>();
  bench.observe(NodeStaged{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, "disk full"});
  CHECK(bench.last<StopBegun>()->reason == StopReason::start_failed);
  CHECK(bench.last<NodeFenced>()->proof == FenceProof::never_started);
  CHECK(bench.count<CollectionBegun>() == 0);
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::infra);
  CHECK(bench.last<RetryScheduled>()->avoid == std::vector<NodeId>{NodeId{"h02"}});
}

TEST_CASE("what no node could do better ends the job at once, and no node is blamed") {
  Bench bench;
  auto job = a_job().on_nodes(2);
  job.spec().muster.class_actions["user"] = Reaction::retry;
  bench.submit(job);
  bench.link_all(4);
  SECTION("a file of the job is gone from the controller") {
    bench.obey_until<Staging>();
    bench.observe(NodeStaged{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, "a blob is gone", true});
  }
  SECTION("its variables are longer than the kernel takes") {
    bench.obey_until<Starting>();
    bench.observe(
        NodeStarted{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, "too long", "/jobs", true});
    bench.obey();
  }
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.failure_class == FailureClass::user);
  CHECK(!cause.first_node);
  CHECK(bench.count<RetryScheduled>() == 0);
  CHECK(bench.count<NodeSuspected>() == 0);
  CHECK(bench.the<JobEnded>().exit_code == 92);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("h02"));
}

TEST_CASE("a node whose staging stalls is given up after 20 minutes and avoided") {
  Bench bench(a_job().on_nodes(2), 4);
  bench.obey_until<Staging>();
  bench.observe(NodeStaged{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, ""});
  SECTION("nothing arrives") {
    bench.pass(Seconds{20 * 60 - 1});
    REQUIRE(bench.is_in<Staging>());
  }
  SECTION("something arrives, then nothing more") {
    bench.pass(Seconds{15 * 60});
    bench.observe(StagingSeen{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, 1000});
    bench.pass(Seconds{20 * 60 - 1});
    REQUIRE(bench.is_in<Staging>());
  }
  bench.pass(Seconds{2});
  CHECK(bench.last<StopBegun>()->sentence ==
        "h02 could not be prepared: no file of the job arrived for 20 min");
  CHECK(bench.last<RetryScheduled>()->avoid == std::vector<NodeId>{NodeId{"h02"}});
  bench.pass(Seconds{10});
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h03"});
}

TEST_CASE("staging may take long while the files arrive") {
  Bench bench(a_job().on_nodes(1), 0);
  bench.link(1);
  bench.obey_until<Staging>();
  for (int minute = 0; minute < 180; ++minute) {
    bench.observe(StagingSeen{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, minute});
    bench.pass(Seconds{60});
  }
  bench.obey();
  CHECK(bench.is_in<Running>());
}

TEST_CASE("what a node fetches is known until it has it, and is one line of the history") {
  Bench bench(a_job().on_nodes(2), 2);
  bench.obey_until<Staging>();
  const auto doing = [&](const char* what) {
    bench.observe(StagingSeen{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, 0, what});
  };
  doing("image 1.2 of 7.9 GB");
  doing("image 2.4 of 7.9 GB");
  const auto preparing = [&] { return summarize(bench.journal).attempts.back().preparing; };
  CHECK(preparing() == std::vector<std::string>{"h02: image 2.4 of 7.9 GB"});
  bench.observe(NodeStaged{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, ""});
  CHECK(preparing().empty());
  std::vector<std::string> lines;
  for (const ExplainLine& line : explain(bench.journal)) {
    if (mentions(line.text, "prepared")) lines.push_back(line.text);
  }
  CHECK(lines == std::vector<std::string>{"h02 is being prepared: image 2.4 of 7.9 GB"});
}

TEST_CASE("a node that reserves no port or starts no rank is named, and avoided") {
  Bench bench(a_job().on_nodes(2), 4);
  std::string expected;
  SECTION("ports") {
    bench.obey_until<Reserving>();
    expected = "h01 reserved no port within 5 min";
  }
  SECTION("ranks") {
    bench.obey_until<Starting>();
    bench.observe(NodeStarted{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, ""});
    expected = "h02 did not start its ranks within 30 min";
  }
  bench.pass(Seconds{31 * 60});
  CHECK(bench.the<StopBegun>().sentence == expected);
  if (bench.is_in<Stopping>()) bench.obey();
  CHECK(bench.last<RetryScheduled>()->avoid == std::vector<NodeId>{NodeId{expected.substr(0, 3)}});
}

TEST_CASE("ports that died with the agent that held them are reserved again") {
  Bench bench;
  auto job = a_job().on_nodes(2);
  job.spec().distribution.type = DistributionType::tensorflow;
  bench.submit(job);
  bench.link_all(2);
  bench.obey_until<Reserving>();
  bench.observe(PortsReserved{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, {20000}, ""});
  REQUIRE(!bench.owes<ReserveWork>(1));
  bench.link(1, 2);
  CHECK(bench.owes<ReserveWork>(1));
}

TEST_CASE("ports that are not reserved end the attempt") {
  Bench bench(a_job().on_nodes(1), 0);
  bench.link(1);
  bench.obey_until<Reserving>();
  bench.observe(PortsReserved{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, {}, "none free"});
  CHECK(bench.last<StopBegun>()->reason == StopReason::start_failed);
}

TEST_CASE("ranks that do not start stop those that did, and every node proves itself clean") {
  Bench bench(a_job().on_nodes(2), 2);
  bench.obey_until<Starting>();
  bench.observe(NodeStarted{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, ""});
  bench.observe(NodeStarted{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, "no such user"});
  CHECK(bench.is_in<Stopping>());
  CHECK(bench.owes<StopWork>(1));
  CHECK(bench.owes<StopWork>(2));
  bench.obey();
  CHECK_THAT(bench.last<AttemptEnded>()->cause.sentence, ContainsSubstring("no such user"));
}

TEST_CASE("a launch waits for an agent that is away for a moment") {
  Bench bench(a_job().on_nodes(2).without_distribution(), 2);
  bench.obey_until<Staging>();
  bench.observe(NodeStaged{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, ""});
  bench.unlink(1);
  bench.observe(NodeStaged{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, ""});
  CHECK(bench.is_in<Staging>());
  bench.link(1);
  CHECK(bench.is_in<Starting>());
}

TEST_CASE("a node drained before the ranks start gives the gang back, uncharged") {
  Bench bench(a_job().on_nodes(2), 4);
  bench.obey_until<Staging>();
  bench.drain(2);
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::preempted);
  CHECK(!bench.last<RetryScheduled>()->charged);
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h03"});
}

TEST_CASE("tensorflow reserves a port for each process of a node") {
  Bench bench;
  auto job = a_job().on_nodes(2);
  job.spec().distribution.type = DistributionType::tensorflow;
  job.spec().distribution.worker_count = 2;
  job.spec().distribution.parameter_server_count = 1;
  bench.submit(job);
  bench.link_all(2);
  bench.obey_until<Reserving>();
  CHECK(std::get<ReserveWork>(pending_work(bench.state, NodeId{"h01"})->work).count == 2);
  CHECK(std::get<ReserveWork>(pending_work(bench.state, NodeId{"h02"})->work).count == 1);
}
