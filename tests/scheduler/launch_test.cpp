#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

template <class T>
bool owes(const Bench& bench, int node) {
  const auto work = pending_work(bench.state, NodeId{node_name(node)});
  return work && std::holds_alternative<T>(work->work);
}

// Until the attempt is in the phase, answering one thing at a time.
template <class P>
void obey_until(Bench& bench) {
  while (!bench.is_in<P>()) {
    const auto works = pending_work(bench.state);
    REQUIRE(!works.empty());
    bench.obey(works.front());
  }
}

}  // namespace

TEST_CASE("a healthy gang is staged, reserves its port on node 0, is launched and runs") {
  Bench bench;
  bench.submit(a_job().on_nodes(2));
  bench.link_all(2);
  obey_until<Staging>(bench);
  CHECK(owes<StageWork>(bench, 1));
  obey_until<Reserving>(bench);
  CHECK(owes<ReserveWork>(bench, 1));
  CHECK(!pending_work(bench.state, NodeId{"h02"}));
  obey_until<Starting>(bench);
  CHECK(owes<StartWork>(bench, 1));
  CHECK(owes<StartWork>(bench, 2));
  obey_until<Running>(bench);
  CHECK(pending_work(bench.state).empty());
}

TEST_CASE("a job whose ranks do not meet, or that names its port, reserves none") {
  Bench bench;
  bench.start(a_job("alone").on_nodes(1).without_distribution());
  auto fixed = a_job("fixed").on_nodes(1);
  fixed.spec().muster.master_port = 6105;
  bench.submit(fixed);
  bench.obey();
  CHECK(bench.is_in<Running>("fixed"));
  CHECK(bench.count<PortsAsked>() == 0);
}

TEST_CASE("a node that cannot be prepared ends the attempt without touching the others") {
  Bench bench;
  bench.submit(a_job().on_nodes(2));
  bench.link_all(2);
  obey_until<Staging>(bench);
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
    obey_until<Staging>(bench);
    bench.observe(NodeStaged{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, "a blob is gone", true});
  }
  SECTION("its variables are longer than the kernel takes") {
    obey_until<Starting>(bench);
    bench.observe(
        NodeStarted{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, "too long", "/jobs", true});
    bench.obey();
  }
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.failure_class == FailureClass::user);
  CHECK(!cause.first_node);
  CHECK(bench.count<RetryScheduled>() == 0);
  CHECK(bench.count<NodeSuspected>() == 0);
  REQUIRE(bench.last<JobEnded>());
  CHECK(bench.last<JobEnded>()->exit_code == 92);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("h02"));
}

TEST_CASE("a node whose staging stalls is given up after 20 minutes and avoided") {
  Bench bench;
  bench.submit(a_job().on_nodes(2));
  bench.link_all(4);
  obey_until<Staging>(bench);
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
  Bench bench;
  bench.submit(a_job().on_nodes(1));
  bench.link(1);
  obey_until<Staging>(bench);
  for (int minute = 0; minute < 180; ++minute) {
    bench.observe(StagingSeen{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, minute});
    bench.pass(Seconds{60});
  }
  bench.obey();
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a node that reserves no port or starts no rank is named, and avoided") {
  Bench bench;
  bench.submit(a_job().on_nodes(2));
  bench.link_all(4);
  std::string expected;
  SECTION("ports") {
    obey_until<Reserving>(bench);
    expected = "h01 reserved no port within 5 min";
  }
  SECTION("ranks") {
    obey_until<Starting>(bench);
    bench.observe(NodeStarted{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, ""});
    expected = "h02 did not start its ranks within 30 min";
  }
  bench.pass(Seconds{31 * 60});
  REQUIRE(bench.last<StopBegun>());
  CHECK(bench.last<StopBegun>()->sentence == expected);
  if (bench.is_in<Stopping>()) bench.obey();
  CHECK(bench.last<RetryScheduled>()->avoid == std::vector<NodeId>{NodeId{expected.substr(0, 3)}});
}

TEST_CASE("ports that died with the agent that held them are reserved again") {
  Bench bench;
  auto job = a_job().on_nodes(2);
  job.spec().distribution.type = DistributionType::tensorflow;
  bench.submit(job);
  bench.link_all(2);
  obey_until<Reserving>(bench);
  bench.observe(PortsReserved{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, {20000}, ""});
  REQUIRE(!owes<ReserveWork>(bench, 1));
  bench.link(1, 2);
  CHECK(owes<ReserveWork>(bench, 1));
}

TEST_CASE("ports that are not reserved end the attempt") {
  Bench bench;
  bench.submit(a_job().on_nodes(1));
  bench.link(1);
  obey_until<Reserving>(bench);
  bench.observe(PortsReserved{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, {}, "none free"});
  CHECK(bench.last<StopBegun>()->reason == StopReason::start_failed);
}

TEST_CASE("ranks that do not start stop those that did, and every node proves itself clean") {
  Bench bench;
  bench.submit(a_job().on_nodes(2));
  bench.link_all(2);
  obey_until<Starting>(bench);
  bench.observe(NodeStarted{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, ""});
  bench.observe(NodeStarted{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, "no such user"});
  CHECK(bench.is_in<Stopping>());
  CHECK(owes<StopWork>(bench, 1));
  CHECK(owes<StopWork>(bench, 2));
  bench.obey();
  CHECK_THAT(bench.last<AttemptEnded>()->cause.sentence, ContainsSubstring("no such user"));
}

TEST_CASE("a launch waits for an agent that is away for a moment") {
  Bench bench;
  bench.submit(a_job().on_nodes(2).without_distribution());
  bench.link_all(2);
  obey_until<Staging>(bench);
  bench.observe(NodeStaged{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, ""});
  bench.unlink(1);
  bench.observe(NodeStaged{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, ""});
  CHECK(bench.is_in<Staging>());
  bench.link(1);
  CHECK(bench.is_in<Starting>());
}

TEST_CASE("a node drained before the ranks start gives the gang back, uncharged") {
  Bench bench;
  bench.submit(a_job().on_nodes(2));
  bench.link_all(4);
  obey_until<Staging>(bench);
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
  obey_until<Reserving>(bench);
  CHECK(std::get<ReserveWork>(pending_work(bench.state, NodeId{"h01"})->work).count == 2);
  CHECK(std::get<ReserveWork>(pending_work(bench.state, NodeId{"h02"})->work).count == 1);
}
