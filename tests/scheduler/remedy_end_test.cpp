// Resets and reboots of which nothing is heard, and what follows them.
#include "tests/scheduler/remedy_site.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr Milliseconds hour{3'600'000};

JobSubmitted another_job() {
  JobBuilder job = a_job("other").on_nodes(1);
  job.target().remedies.reboot_from_here = power_words;
  return job;
}

}  // namespace

TEST_CASE("a host that nobody has looked for is not rebooted from here when a job comes") {
  Site site;
  site.bench.unlink(2);
  site.tell(2, {gpu_fault(site.bench.now, Remedy::reboot)});
  site.bench.finish();
  site.bench.pass(24 * hour);
  site.bench.submit(another_job());
  CHECK(site.begun() == 0);
  site.bench.pass(remedy_link_limit - Milliseconds{1});
  CHECK(site.begun() == 0);
  SECTION("it answers") {
    site.bench.link(2);
    site.tell(2, {});
    site.bench.pass(hour);
    CHECK(site.begun() == 0);
  }
  SECTION("it does not") {
    site.bench.pass(Milliseconds{1});
    CHECK(site.begun() == 1);
  }
}

TEST_CASE("a controller that was restarted looks for a host before it cuts its power") {
  Site site;
  site.bench.unlink(2);
  site.tell(2, {gpu_fault(site.bench.now, Remedy::reboot)});
  site.restart(2);
  site.bench.pass(hour);
  CHECK(site.begun() == 0);
  site.bench.unlink(2, LinkFailureKind::unreachable);
  CHECK(site.begun() == 0);
  site.bench.pass(remedy_link_limit);
  CHECK(site.begun() == 1);
}

TEST_CASE("what happened while no controller listened is not held against a reboot") {
  Site site({{}, reboot_words, {}});
  site.tell(2, {gpu_fault(site.bench.now, Remedy::reboot)});
  REQUIRE(site.begun() == 1);
  site.restart(2);
  site.bench.pass(2 * reboot_back_limit);
  REQUIRE(site.node(2).remedy);
  SECTION("the host is back") {
    site.bench.link(2, 2, 2);
    CHECK(site.failure().empty());
  }
  SECTION("it is not, as a controller sees that looks for it") {
    site.bench.unlink(2, LinkFailureKind::unreachable);
    REQUIRE(site.node(2).remedy);
    site.bench.pass(remedy_answer_margin);
    CHECK(site.failure() == "it did not come back within 15 min");
  }
  SECTION("its agent is as before, and may say that it was not queried") {
    site.bench.link(2);
    REQUIRE(site.node(2).remedy);
    site.ended(2, {127, 0}, "it was not begun");
    CHECK(site.failure() == "it was not begun");
  }
  SECTION("nobody knows how it is reached") {
    site.bench.pass(24 * hour);
    CHECK(site.node(2).remedy);
  }
}

TEST_CASE("an agent that kept what came of a reset is asked before that counts as failed") {
  Site site;
  site.tell(2, {gpu_fault(site.bench.now)});
  site.restart(2);
  site.bench.pass(hour);
  site.bench.link(2);
  REQUIRE(site.node(2).remedy);
  SECTION("it tells") {
    site.ended(2, {});
    CHECK(site.failure().empty());
  }
  SECTION("it does not") {
    site.bench.pass(remedy_answer_margin);
    CHECK(site.failure() == "no word of it for 7 min");
  }
}

TEST_CASE("a reboot whose command was killed may have been heard: the next boot is waited for") {
  Site site;
  site.tell(2, {gpu_fault(site.bench.now, Remedy::reboot)});
  SECTION("it was begun") {
    site.ended(2, {0, 9}, "its command did not end within 120 s");
    REQUIRE(site.node(2).remedy);
    CHECK(site.begun() == 1);
    site.bench.link(2, 2, 2);
    CHECK(site.failure().empty());
    CHECK(site.begun() == 1);
  }
  SECTION("it was not") {
    site.ended(2, {127, 0}, "there is no program 'sudo'");
    CHECK(site.begun() == 2);
    CHECK(site.latest().step == RemedyStep::reboot_from_here);
  }
}

TEST_CASE("a reset whose command was killed has failed") {
  Site site;
  site.tell(2, {gpu_fault(site.bench.now)});
  site.ended(2, {0, 9}, "its command did not end within 300 s");
  CHECK(site.failure() == "its command did not end within 300 s");
}

TEST_CASE("a host that hangs in its own shutdown is rebooted from here before it is given up") {
  Site site;
  site.tell(2, {gpu_fault(site.bench.now, Remedy::reboot)});
  site.ended(2, {});
  site.bench.unlink(2);
  site.bench.pass(reboot_back_limit);
  CHECK(site.begun() == 2);
  REQUIRE(site.latest().step == RemedyStep::reboot_from_here);
  CHECK(site.failure() == "it did not come back within 15 min");
  CHECK(site.node(2).fault_drain->fault.check == "gpu.xid");
  SECTION("which brings it back") {
    site.ended(2, {});
    site.bench.link(2, 2, 2);
    CHECK(site.failure().empty());
    CHECK_FALSE(site.node(2).is_away);
  }
  SECTION("which does not") {
    site.ended(2, {});
    site.bench.pass(reboot_back_limit);
    CHECK(site.node(2).is_away);
    CHECK(site.node(2).fault_drain->fault.check == "host.agent");
  }
  SECTION("which cannot be done") {
    site.ended(2, {1, 0});
    CHECK(site.failure() == "its command exited with code 1");
    CHECK(site.node(2).is_away);
    CHECK(site.node(2).fault_drain->fault.check == "host.agent");
  }
}

TEST_CASE("a host that is away between two steps keeps others from being taken away") {
  Site site;
  site.tell(2, {gpu_fault(site.bench.now, Remedy::reboot)});
  site.ended(2, {});
  site.bench.pass(reboot_back_limit - Milliseconds{60'000});
  site.bench.unlink(2);
  site.bench.pass(Milliseconds{180'000});
  CHECK(site.failure() == "it did not come back within 15 min");
  REQUIRE(site.begun() == 1);
  NodeFault other = gpu_fault(site.bench.now);
  other.id = "00ff";
  site.tell(3, {other});
  CHECK(site.begun() == 1);
  site.bench.pass(Milliseconds{180'000});
  CHECK(site.begun() == 2);
  CHECK(site.latest().node == id_of(2));
}

TEST_CASE("a host that is drained while it is away is looked for before its power is cut") {
  Site site;
  NodeFault fault = gpu_fault(site.bench.now, Remedy::reboot);
  fault.stops_job = false;
  fault.shared_cause = true;  // it is waited for others first
  site.tell(2, {fault});
  site.bench.unlink(2);
  site.bench.now += Milliseconds{3'600'000};  // nobody decides anything
  site.bench.pass(Milliseconds{1000});
  REQUIRE(site.node(2).fault_drain);
  CHECK(site.begun() == 0);
  site.bench.pass(remedy_link_limit);
  CHECK(site.begun() == 1);
}
