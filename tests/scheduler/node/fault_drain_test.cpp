#include "scheduler/node/fault_drain.h"

#include "tests/catch.h"
#include "tests/scheduler/bench.h"
#include "tests/sim/model/replay.h"

using namespace muster;
using namespace muster::test;

namespace {

NodeFault xid(int code, Time since, bool stops_job = true) {
  NodeFault fault;
  fault.id = "6f01ab" + std::to_string(code);
  fault.check = "gpu.xid";
  fault.device = "gpu3";
  fault.serial = "165";
  fault.remedy = Remedy::reboot;
  fault.stops_job = stops_job;
  fault.since = since;
  fault.what = "XID " + std::to_string(code) + " on gpu3";
  fault.evidence = {"NVRM: Xid (PCI:0000:5d:00): " + std::to_string(code)};
  return fault;
}

}  // namespace

TEST_CASE("a fault that a job cannot go on with moves it to another node, at the budget's charge") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(10, sealed(10));
  bench.report_faults(2, {xid(79, bench.now)});
  REQUIRE(bench.is_in<Stopping>());
  const StopBegun& why = *bench.last<StopBegun>();
  CHECK(why.reason == StopReason::faulty);
  CHECK(why.sentence == "h02: XID 79 on gpu3 (gpu.xid, needs a reboot)");
  CHECK(bench.last<NodeFaulted>()->reason == "muster:node:gpu.xid:gpu3 6f01ab79");
  bench.obey();
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::hw);
  CHECK(bench.last<AttemptEnded>()->cause.first_node == NodeId{"h02"});
  bench.obey_after(Seconds{60});
  REQUIRE(bench.is_in<Running>());
  CHECK(bench.nodes() == Names{"h01", "h03"});
  CHECK(bench.attempt().resume_from->step == 10);
}

TEST_CASE("what a doubtful node computed is not resumed from") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(20, sealed(20));
  for (const char* name : {"h01", "h03"}) {
    bench.on_disk[NodeId{name}] = sealed(20);
    bench.certified[NodeId{name}] = sealed(10);
  }
  NodeFault fault = xid(95, bench.now);
  fault.in_doubt = true;
  bench.report_faults(2, {fault});
  bench.obey();
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::sdc);
  bench.obey_after(Seconds{60});
  REQUIRE(bench.is_in<Running>());
  CHECK(bench.attempt().resume_from->step == 10);
}

TEST_CASE(
    "a fault that is no reason to stop keeps the next job away, and the running one goes on") {
  Bench bench(a_job().on_nodes(1).of_cluster(2));
  bench.report_faults(1, {xid(63, bench.now, false)});
  CHECK(bench.is_in<Running>());
  CHECK(bench.node(1).fault_drain);
  bench.submit(a_job("next").on_nodes(1).of_cluster(2));
  CHECK(bench.nodes("next") == Names{"h02"});
  bench.finish();
  bench.submit(a_job("last").on_nodes(1).of_cluster(2));
  CHECK_THAT(std::get<Queued>(bench.job("last").phase).reason,
             ContainsSubstring("h01 is unfit: XID 63 on gpu3"));
  CHECK(nodes_to_connect(bench.state).count(NodeId{"h01"}) == 1);
}

TEST_CASE("a warning, and a check that only observes, drain nothing") {
  Bench bench(a_job().on_nodes(1));
  NodeFault warning = xid(1, bench.now);
  warning.remedy = Remedy::warn;
  NodeFault observed = xid(2, bench.now);
  observed.enforced = false;
  bench.report_faults(1, {observed, warning});
  CHECK(bench.is_in<Running>());
  CHECK(bench.count<NodeFaulted>() == 0);
  CHECK(bench.node(1).faults.size() == 2);
}

TEST_CASE("the node comes back when its agent is sure that the fault is over, and not before") {
  Bench bench;
  bench.link_all(2);
  bench.report_faults(1, {xid(79, bench.now)});
  REQUIRE(bench.node(1).fault_drain);
  bench.report_faults(1, {}, false);
  CHECK(bench.node(1).fault_drain);
  bench.report_faults(1, {});
  CHECK(bench.node(1).fault_drain);
  bench.pass(Seconds{301});
  CHECK(!bench.node(1).fault_drain);
  CHECK(bench.last<NodeFaultOver>()->reason == "muster:node:gpu.xid:gpu3 6f01ab79");
}

TEST_CASE("somebody's undrain counts until something is found later") {
  Bench bench;
  bench.link_all(2);
  const NodeFault fault = xid(79, bench.now);
  bench.report_faults(1, {fault});
  bench.pass(Seconds{1});
  bench.drain(1, false);
  CHECK(!bench.node(1).fault_drain);
  bench.report_faults(1, {fault});
  CHECK(!bench.node(1).fault_drain);
  bench.pass(Seconds{1});
  bench.report_faults(1, {fault, xid(48, bench.now)});
  CHECK(bench.node(1).fault_drain->fault.id == "6f01ab48");
}

TEST_CASE("a person's drain and its reason are left alone") {
  Bench bench;
  bench.link_all(2);
  bench.drain(1, true);
  const std::string reason = bench.node(1).drain_reason;
  bench.report_faults(1, {xid(79, bench.now)});
  bench.report_faults(1, {});
  CHECK(bench.node(1).drained);
  CHECK(bench.node(1).drain_reason == reason);
}

TEST_CASE("one check that would drain too many nodes at once drains no more until somebody looks") {
  Bench bench(a_job().on_nodes(4).of_cluster(8));
  for (int number = 5; number <= 7; ++number) bench.report_faults(number, {xid(79, bench.now)});
  CHECK(bench.node(5).fault_drain);
  CHECK(bench.node(6).fault_drain);
  CHECK(!bench.node(7).fault_drain);
  CHECK(bench.the<BreakerOpened>().target == "gpu.xid@lab");
  CHECK(bench.last<BreakerOpened>()->is_check);
  bench.report_faults(1, {xid(79, bench.now)});
  CHECK(bench.is_in<Running>());
  CHECK(bench.count<BreakerOpened>() == 1);
  bench.pass(Seconds{700});
  bench.report_faults(2, {xid(79, bench.now)});
  CHECK(bench.is_in<Running>());
  SECTION("what was found before does not count afterwards either, what is found then does") {
    bench.observe(BreakerReset{"gpu.xid"});
    CHECK(!bench.node(7).fault_drain);
    CHECK(bench.is_in<Running>());
    bench.pass(Seconds{1});
    bench.report_faults(2, {xid(48, bench.now)});
    CHECK(bench.is_in<Stopping>());
  }
}

TEST_CASE("a rank that failed because its node did is not blamed for it") {
  Bench bench(a_job().on_nodes(2));
  bench.exit_rank(1, {1, 0});
  REQUIRE(bench.is_in<Stopping>());
  bench.report_faults(2, {xid(79, bench.now)});
  bench.obey();
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.failure_class == FailureClass::hw);
  CHECK(cause.first_node == NodeId{"h02"});
  CHECK_THAT(cause.sentence, ContainsSubstring("h02: XID 79 on gpu3"));
  CHECK_THAT(cause.sentence, ContainsSubstring("rank 1 on h02 exited with code 1"));
}

TEST_CASE("an elastic job continues without the node; in doubt it stops as a whole") {
  Bench bench(a_job().elastic(2, 4).of_cluster(4));
  NodeFault fault = xid(79, bench.now);
  SECTION("goes on") {
    bench.report_faults(2, {fault});
    CHECK(bench.the<NodeLeaving>().node == NodeId{"h02"});
    CHECK(bench.last<NodeLeaving>()->reason == StopReason::faulty);
    CHECK(bench.is_in<Running>());
  }
  SECTION("stops") {
    fault.in_doubt = true;
    bench.report_faults(2, {fault});
    CHECK(bench.is_in<Stopping>());
  }
}

TEST_CASE("explain tells the fault with its evidence, and the journal alone tells all of it") {
  Bench bench(a_job().on_nodes(2));
  bench.report_faults(2, {xid(79, bench.now)});
  bench.obey();
  const std::string text = bench.story();
  CHECK_THAT(text, ContainsSubstring("h02: XID 79 on gpu3 (gpu.xid, needs a reboot)"));
  CHECK_THAT(text, ContainsSubstring("evidence: NVRM: Xid (PCI:0000:5d:00): 79"));
  bench.rebuilt();
}

TEST_CASE("a fault that comes again on the same board calls for more, on whatever host it is") {
  Bench bench;
  bench.link_all(3);
  NodeFault fault = xid(119, bench.now);
  fault.remedy = Remedy::reset;
  fault.on_recurrence = Remedy::reboot;
  bench.report_faults(1, {fault});
  CHECK(bench.node(1).fault_drain->fault.remedy == Remedy::reset);
  bench.report_faults(1, {});
  bench.pass(Milliseconds{3'600'000});
  fault.since = bench.now;
  bench.report_faults(2, {fault});
  CHECK(bench.node(2).fault_drain->fault.remedy == Remedy::reboot);
  bench.report_faults(2, {});
  bench.pass(Milliseconds{3'600'000});
  fault.since = bench.now;
  bench.report_faults(1, {fault});
  CHECK(bench.node(1).fault_drain->fault.remedy == Remedy::rma);
  SECTION("another board begins at the first step") {
    NodeFault other = fault;
    other.serial = "166";
    bench.report_faults(3, {other});
    CHECK(bench.node(3).fault_drain->fault.remedy == Remedy::reset);
  }
  SECTION("so does this one after a month") {
    bench.report_faults(1, {});
    bench.pass(Milliseconds{31LL * 24 * 3'600'000});
    fault.since = bench.now;
    bench.report_faults(1, {fault});
    CHECK(bench.node(1).fault_drain->fault.remedy == Remedy::reset);
  }
}

TEST_CASE("three reboots of a host in a day are a loop") {
  Bench bench;
  bench.link_all(1);
  for (int day_part = 0; day_part < 3; ++day_part) {
    bench.report_faults(1, {xid(79 + day_part, bench.now)});
    CHECK(bench.node(1).fault_drain->fault.remedy == Remedy::reboot);
    bench.report_faults(1, {});
    bench.pass(Milliseconds{3'600'000});
  }
  bench.report_faults(1, {xid(90, bench.now)});
  CHECK(bench.node(1).fault_drain->fault.remedy == Remedy::rma);
}

TEST_CASE("what only ends programs speaks against a board when a second job meets it there") {
  Bench bench(a_job("one").on_nodes(1).of_cluster(1));
  NodeFault fault = xid(32, bench.now, false);
  fault.code = "32";
  fault.remedy = Remedy::warn;
  fault.on_recurrence = Remedy::reset;
  bench.report_faults(1, {fault});
  CHECK(!bench.node(1).fault_drain);
  bench.finish("one");
  bench.report_faults(1, {});
  bench.pass(Seconds{60});
  bench.submit(a_job("two").on_nodes(1).of_cluster(1));
  bench.obey();
  fault.since = bench.now;
  bench.report_faults(1, {fault});
  REQUIRE(bench.node(1).fault_drain);
  CHECK(bench.node(1).fault_drain->fault.remedy == Remedy::reset);
}

TEST_CASE("a warning that asked for nothing drains nobody when it comes again") {
  Bench bench;
  bench.link_all(1);
  NodeFault fault = xid(0, bench.now, false);
  fault.check = "gpu.nvlink_err4";
  fault.remedy = Remedy::warn;
  fault.on_recurrence = Remedy::drain;
  for (int hour = 0; hour < 5; ++hour) {
    fault.since = bench.now;
    bench.report_faults(1, {fault});
    bench.report_faults(1, {});
    bench.pass(Seconds{3600});
  }
  CHECK(bench.count<NodeFaulted>() == 0);
  CHECK(bench.state.remedies.empty());
}

TEST_CASE("a fault that is told before the ranks start keeps them from starting there") {
  Bench bench(a_job().on_nodes(2), 8);
  while (!bench.is_in<Starting>() && !bench.is_in<Running>()) {
    const auto work = pending_work(bench.state);
    REQUIRE(!work.empty());
    bench.obey(work.front());
    if (bench.is_in<Reserving>()) {
      bench.report_faults(2, {xid(79, bench.now)});
      break;
    }
  }
  bench.obey();
  bench.obey_after(Seconds{60});
  REQUIRE(bench.is_in<Running>());
  for (const std::string& name : bench.nodes()) CHECK(name != "h02");
}

TEST_CASE("a fault that gets worse stops the job that it let go on") {
  Bench bench(a_job().on_nodes(2));
  NodeFault fault = xid(144, bench.now, false);
  bench.report_faults(2, {fault});
  CHECK(bench.is_in<Running>());
  fault.stops_job = true;
  bench.report_faults(2, {fault});
  CHECK(bench.is_in<Stopping>());
}

TEST_CASE("what a node that has left had does not explain a later failure elsewhere") {
  Bench bench(a_job().elastic(1, 4).of_cluster(4));
  bench.report_faults(2, {xid(79, bench.now)});
  bench.obey();
  REQUIRE(bench.is_in<Running>());
  bench.exit_and_obey(0, {1, 0});
  for (const Record& record : bench.journal) {
    const auto* ended = record_as<AttemptEnded>(record);
    if (ended) CHECK(ended->cause.first_node != NodeId{"h02"});
  }
}

TEST_CASE("two GPUs of one node are two boards, also without serials") {
  Bench bench;
  bench.link_all(2);
  NodeFault fault = xid(119, bench.now);
  fault.serial.clear();
  fault.remedy = Remedy::reset;
  fault.on_recurrence = Remedy::reboot;
  bench.report_faults(1, {fault});
  bench.report_faults(1, {});
  bench.pass(Milliseconds{3'600'000});
  fault.since = bench.now;
  fault.device = "gpu5";
  bench.report_faults(1, {fault});
  CHECK(bench.node(1).fault_drain->fault.remedy == Remedy::reset);
}

TEST_CASE("of several faults a node is drained for the one that stops jobs, then the heaviest") {
  Bench bench;
  bench.link_all(1);
  NodeFault light = xid(63, bench.now, false);
  light.remedy = Remedy::reset;
  NodeFault heavy = xid(79, bench.now, false);
  heavy.remedy = Remedy::rma;
  NodeFault stopping = xid(95, bench.now, true);
  stopping.remedy = Remedy::drain;
  std::vector<NodeFault> faults;
  std::string drained_for;
  SECTION("the heavier one, whichever is told first") {
    faults = GENERATE_COPY(std::vector{light, heavy}, std::vector{heavy, light});
    drained_for = heavy.id;
  }
  SECTION("the one that stops jobs, whichever is told first") {
    faults = GENERATE_COPY(std::vector{heavy, stopping}, std::vector{stopping, heavy});
    drained_for = stopping.id;
  }
  SECTION("none that does not call for a drain") {
    heavy.enforced = false;
    faults = {heavy, light};
    drained_for = light.id;
  }
  bench.report_faults(1, faults);
  REQUIRE(bench.node(1).fault_drain);
  CHECK(bench.node(1).fault_drain->fault.id == drained_for);
}

TEST_CASE("a node that was rebooted resumed when its agent has looked at it") {
  Bench bench;
  bench.link(1, 1, 1);
  bench.report_faults(1, {xid(79, bench.now)});
  REQUIRE(bench.node(1).fault_drain);
  CHECK(next_look_text(bench.node(1), bench.now) == "looked at every 2 min until it is fixed");
  bench.pass(Seconds{30});
  bench.unlink(1);
  CHECK(next_look_text(bench.node(1), bench.now) == "looked at again when it answers");
  const bool rebooted = GENERATE(true, false);
  bench.link(1, 2, rebooted ? 2 : 1);
  CHECK(next_look_text(bench.node(1), bench.now) == "being looked at again");
  bench.pass(Seconds{30});
  REQUIRE(bench.node(1).fault_drain);
  bench.report_faults(1, {});
  CHECK(bench.node(1).fault_drain.has_value() == !rebooted);
  if (rebooted) return;
  CHECK(next_look_text(bench.node(1), bench.now) == "fixed; resumed in 4 min");
  bench.pass(Seconds{240});
  CHECK(!bench.node(1).fault_drain);
}
