#include "scheduler/node/remediation_run.h"
#include "tests/scheduler/remedy_site.h"

using namespace muster;
using namespace muster::test;

TEST_CASE("a node that is idle and drained for a fault is reset once, and used when checks pass") {
  Site site;
  site.tell(2, {gpu_fault(site.bench.now)});
  REQUIRE(site.begun() == 1);
  CHECK_FALSE(remedy_hindrance(site.bench.state, site.node(2)));
  CHECK(site.latest().step == RemedyStep::reset);
  CHECK(site.latest().argv == std::vector<std::string>{"sudo", "-n", "smi", "-i", "3"});
  CHECK(site.latest().agent_id == "agent1");
  CHECK(site.refusal(2) == "h02 is being reset: XID 95 on gpu3");
  site.ended(2, {});
  CHECK_FALSE(site.node(2).remedy);
  CHECK(site.bench.last<RemedyOver>()->failure.empty());
  CHECK(over_text(*site.bench.last<RemedyOver>()) ==
        "h02: gpu3 reset by muster after XID 95 on gpu3");
  site.bench.pass(Milliseconds{3 * 3'600'000});
  CHECK(site.begun() == 1);
  site.tell(2, {});
  CHECK_FALSE(site.node(2).fault_drain);
  CHECK(site.refusal(2).empty());
}

TEST_CASE("nothing is begun where a person does it") {
  SECTION("the target has no commands") {
    Site site{RemedyCommands{}};
    site.tell(2, {gpu_fault(site.bench.now)});
    CHECK(site.begun() == 0);
  }
  SECTION("a reset is called for, and there are reboots alone") {
    Site site{RemedyCommands{{}, reboot_words, power_words}};
    site.tell(2, {gpu_fault(site.bench.now)});
    CHECK(site.begun() == 0);
  }
  SECTION("the board has to be replaced, or the fault is the network's or only told") {
    Site site;
    NodeFault fault = gpu_fault(site.bench.now, Remedy::rma);
    site.tell(2, {fault});
    fault = gpu_fault(site.bench.now);
    fault.fault_class = FaultClass::infra;
    site.tell(3, {fault});
    fault = gpu_fault(site.bench.now);
    fault.enforced = false;
    site.tell(4, {fault});
    CHECK(site.begun() == 0);
  }
  SECTION("the fault names no GPU that the command asks for") {
    Site site;
    NodeFault fault = gpu_fault(site.bench.now);
    fault.device = GENERATE("", "mlx5_0");
    site.tell(2, {fault});
    CHECK(site.begun() == 0);
    const auto why = remedy_hindrance(site.bench.state, site.node(2));
    REQUIRE(why);
    CHECK(*why == "not reset by muster: nothing fits {gpu} of its command, as the fault is of " +
                      (fault.device.empty() ? "the host" : fault.device));
    SECTION("which a job that waits for the node tells too") {
      site.bench.submit(a_job("big").on_nodes(4));
      site.bench.finish();
      const std::string text = site.bench.story();
      CHECK_THAT(text, ContainsSubstring("h02 is unfit: XID 95 on gpu3; " + *why));
    }
    SECTION("but not of a node that a person has") {
      site.bench.drain(2);
      CHECK_FALSE(remedy_hindrance(site.bench.state, site.node(2)));
    }
  }
  SECTION("a person drained the node") {
    Site site;
    site.bench.drain(2);
    site.tell(2, {gpu_fault(site.bench.now)});
    CHECK(site.begun() == 0);
  }
}

TEST_CASE("nothing is reset for a check of which the breaker is open") {
  const bool is_open = GENERATE(false, true);
  Bench bench;
  for (const char* name : {"train", "other"}) {
    JobBuilder job = a_job(name).on_nodes(4);
    job.target().remedies.reset = reset_words;
    if (bench.journal.empty()) {
      bench.start(job);
    } else {
      bench.submit(job);
    }
  }
  for (int i = 1; i <= (is_open ? 3 : 1); ++i) {
    NodeFault fault = gpu_fault(bench.now);
    fault.stops_job = false;
    bench.observe(NodeFaultsSeen{id_of(i), {fault}, true, JobId{"train"}});
  }
  REQUIRE(bench.state.breakers.contains("gpu.xid@lab") == is_open);
  REQUIRE(bench.state.nodes.at(id_of(1)).fault_drain);
  bench.finish();
  CHECK(bench.count<RemedyBegun>() == (is_open ? 0 : 1));
}

TEST_CASE("a node that a job has is left to it") {
  Site site;
  NodeFault fault = gpu_fault(site.bench.now);
  fault.stops_job = false;
  site.tell(1, {fault});
  REQUIRE(site.node(1).fault_drain);
  CHECK(site.begun() == 0);
  SECTION("until it ends") {
    JobBuilder other = a_job("other").on_nodes(4);
    other.target().remedies.reset = reset_words;
    site.bench.submit(other);
    site.bench.finish();
    CHECK(site.begun() == 1);
    CHECK(site.latest().node == id_of(1));
  }
}

TEST_CASE("few nodes of a target are reset at once") {
  const int nodes = GENERATE(4, 60);
  const std::size_t most = nodes == 4 ? 1 : 3;
  Site site({reset_words, {}, {}}, nodes);
  for (int i = 2; i <= 4; ++i) {
    NodeFault fault = gpu_fault(site.bench.now);
    fault.check = "gpu.check" + std::to_string(i);  // no breaker's business
    fault.serial += std::to_string(i);
    site.bench.link(i);
    site.tell(i, {fault});
  }
  CHECK(static_cast<std::size_t>(site.begun()) == most);
  site.ended(2, {});
  CHECK(site.begun() == (nodes == 4 ? 2 : 3));
}

TEST_CASE("a reset that fails is followed by a reboot where the fault says so") {
  Site site;
  const Remedy next = GENERATE(Remedy::reboot, Remedy::rma);
  site.tell(2, {gpu_fault(site.bench.now, Remedy::reset, next)});
  REQUIRE(site.begun() == 1);
  SECTION("its command fails") {
    site.ended(2, {3, 0});
  }
  SECTION("its command is refused") {
    site.ended(2, {127, 0}, "ranks run on node h02");
  }
  SECTION("nothing is heard of it") {
    site.bench.pass(reset_limit + remedy_answer_margin);
  }
  SECTION("its agent is another") {
    site.bench.link(2, 2);
    CHECK(site.begun() == 1);  // before that one has told
    site.tell(2, site.node(2).faults);
  }
  SECTION("it is done, and the fault stands again") {
    site.ended(2, {});
    site.bench.pass(Milliseconds{3'600'000});
    CHECK(site.begun() == 1);
    site.tell(2, {gpu_fault(site.bench.now, Remedy::reset, next)});
  }
  CHECK(site.begun() == (next == Remedy::reboot ? 2 : 1));
  if (next == Remedy::reboot) CHECK(site.latest().step == RemedyStep::reboot);
  site.bench.pass(Milliseconds{3'600'000});
  site.bench.link(2, 3);
  CHECK(site.begun() <= 3);  // each step once
}

TEST_CASE("a step after the first that nothing fits is told, one that is tried or done is not") {
  Site site({reset_words, {"reboot", "{serial}"}, {}});
  NodeFault fault = gpu_fault(site.bench.now, Remedy::reset, Remedy::reboot);
  fault.serial = "";
  site.tell(2, {fault});
  REQUIRE(site.begun() == 1);
  CHECK_FALSE(remedy_hindrance(site.bench.state, site.node(2)));
  SECTION("the first failed") {
    site.ended(2, {3, 0});
    CHECK(site.begun() == 1);
    CHECK(remedy_hindrance(site.bench.state, site.node(2)) ==
          "not rebooted by muster: nothing fits {serial} of its command, as the fault is of gpu3");
  }
  SECTION("the first is done") {
    site.ended(2, {});
    CHECK_FALSE(remedy_hindrance(site.bench.state, site.node(2)));
  }
}

TEST_CASE("a failure is told with what the command said") {
  Site site;
  site.tell(2, {gpu_fault(site.bench.now)});
  site.ended(2, {3, 0});
  const RemedyOver& over = *site.bench.last<RemedyOver>();
  CHECK(over_text(over) ==
        "h02: muster could not reset gpu3 after XID 95 on gpu3: its command exited with code 3");
  CHECK(over.lines == std::vector<std::string>{"it is in use"});
  CHECK(site.node(2).remedies.back().failure == "its command exited with code 3");
  CHECK(site.node(2).fault_drain);
}

TEST_CASE("a node that is rebooted is waited for, and done with when its next boot answers") {
  Site site;
  site.tell(2, {gpu_fault(site.bench.now, Remedy::reboot)});
  REQUIRE(site.begun() == 1);
  CHECK(site.latest().argv == reboot_words);
  CHECK(site.refusal(2) == "h02 is rebooting: XID 95 on gpu3");
  site.ended(2, {0, 15});  // taken along by what it asked for
  REQUIRE(site.node(2).remedy);
  site.bench.unlink(2);
  site.bench.pass(Milliseconds{5 * 60'000});
  CHECK(nodes_to_connect(site.bench.state).contains(id_of(2)));
  site.bench.link(2, 2, 2);
  CHECK_FALSE(site.node(2).remedy);
  CHECK(site.bench.last<RemedyOver>()->failure.empty());
  site.tell(2, {}, false);
  CHECK(site.node(2).fault_drain);
  site.tell(2, {}, true);
  site.bench.pass(fault_drain_least);
  CHECK_FALSE(site.node(2).fault_drain);
  CHECK(site.begun() == 1);
}

TEST_CASE("a node that does not come back says so, and keeps others from being rebooted") {
  Site site({{}, reboot_words, {}});
  site.tell(2, {gpu_fault(site.bench.now, Remedy::reboot)});
  site.ended(2, {});
  site.bench.unlink(2);
  site.bench.pass(reboot_back_limit);
  CHECK(site.bench.last<RemedyOver>()->failure == "it did not come back within 15 min");
  CHECK(site.bench.last<NodeFaulted>()->reason == "muster:node:host.agent: host.agent");
  CHECK_THAT(site.refusal(2), ContainsSubstring("not back 15 min after muster rebooted it for"));
  site.bench.pass(Milliseconds{3'600'000});
  CHECK(site.node(2).fault_drain->fault.check == "host.agent");
  NodeFault fault = gpu_fault(site.bench.now, Remedy::reboot);
  fault.serial = "166";
  site.tell(3, {fault});
  CHECK(site.begun() == 1);
  SECTION("until it is back after all") {
    site.bench.link(2, 2, 2);
    CHECK(site.begun() == 2);
    site.tell(2, {}, true);
    CHECK_FALSE(site.node(2).fault_drain);
  }
  SECTION("or a person says that it is sound") {
    site.bench.drain(2, false);
    CHECK(site.begun() == 2);
  }
  SECTION("or a person takes it") {
    site.bench.drain(2);
    CHECK(site.begun() == 2);
  }
}

TEST_CASE("what keeps a node from being rebooted by itself has it rebooted from here") {
  Site site;
  site.tell(2, {gpu_fault(site.bench.now, Remedy::reboot)}, true);
  SECTION("its own command fails") {
    site.ended(2, {1, 0});
  }
  SECTION("it runs on as before") {
    site.bench.pass(reboot_back_limit);
  }
  CHECK(site.begun() == 2);
  CHECK(site.latest().step == RemedyStep::reboot_from_here);
  CHECK(site.latest().argv ==
        std::vector<std::string>{"ipmitool", "-H", "h02-bmc", "power", "cycle"});
}

TEST_CASE("a node that does not answer is rebooted from here, after a while") {
  Site site;
  NodeFault fault = gpu_fault(site.bench.now, Remedy::reboot);
  site.bench.unlink(2);
  site.tell(2, {fault});
  CHECK(site.begun() == 0);
  site.bench.pass(remedy_link_limit);
  CHECK(site.begun() == 1);
  CHECK(site.latest().step == RemedyStep::reboot_from_here);
}

TEST_CASE("three remedies of a node in a day are enough") {
  Site site({reset_words, {}, {}});
  for (int i = 0; i < 5; ++i) {
    NodeFault fault = gpu_fault(site.bench.now);
    fault.id += std::to_string(i);
    fault.code = std::to_string(i);
    site.tell(2, {fault});
    if (site.node(2).remedy) site.ended(2, {});
    site.tell(2, {});
    site.bench.pass(Milliseconds{3'600'000});
  }
  CHECK(site.begun() == remedies_a_day);
}

TEST_CASE("a controller that is restarted hears the agent first: somebody may have seen to it") {
  Site site({{}, reboot_words, {}});
  site.bench.unlink(2);
  site.tell(2, {gpu_fault(site.bench.now, Remedy::reboot)});
  const auto told = site.node(2).faults_told;
  REQUIRE(told.size() == 1);
  site.bench.link(2);
  CHECK(site.begun() == 0);
  CHECK(site.node(2).faults_told == told);  // how old they are is not forgotten
  SECTION("it is over") {
    site.tell(2, {});
    site.bench.pass(fault_drain_least);
    CHECK(site.begun() == 0);
    CHECK_FALSE(site.node(2).fault_drain);
  }
  SECTION("it stands") {
    site.tell(2, site.node(2).faults, false);
    CHECK(site.begun() == 1);
  }
}

TEST_CASE("who has told a fault knows when it is over, who has not looks for a while first") {
  Site site;
  const NodeFault fault = gpu_fault(site.bench.now);
  site.tell(2, {fault}, false);
  REQUIRE(site.begun() == 1);
  site.ended(2, {});
  SECTION("the same agent") {
    site.tell(2, {}, false);
    CHECK_FALSE(site.node(2).fault_drain);
  }
  SECTION("another one that remembers it") {
    site.bench.link(2, 2);
    site.tell(2, {fault}, false);
    CHECK(site.node(2).fault_drain);
    site.tell(2, {}, false);
    CHECK_FALSE(site.node(2).fault_drain);
  }
  SECTION("another one that does not") {
    site.bench.link(2, 2);
    site.tell(2, {}, false);
    CHECK(site.node(2).fault_drain);
    site.tell(2, {});
    CHECK_FALSE(site.node(2).fault_drain);
  }
}

TEST_CASE("a node that is undrained while it is reset gets nothing before that is over") {
  Site site;
  site.tell(2, {gpu_fault(site.bench.now)});
  site.bench.drain(2, false);
  CHECK_FALSE(site.node(2).fault_drain);
  CHECK_FALSE(site.refusal(2).empty());
  site.ended(2, {});
  CHECK(site.refusal(2).empty());
}

TEST_CASE("what a person reads of it") {
  Site site;
  site.tell(2, {gpu_fault(site.bench.now)});
  site.ended(2, {});
  const std::string text = site.bench.story();
  CHECK_THAT(text, ContainsSubstring(
                       "h02: gpu3 is reset by muster for XID 95 on gpu3: sudo -n smi -i 3\n"));
  CHECK_THAT(text, ContainsSubstring("h02: gpu3 reset by muster after XID 95 on gpu3\n"));
}
