#include "health/verdict/streaks.h"

#include <random>

#include "tests/catch.h"
#include "tests/health/verdict/verdict_builders.h"

using namespace muster;

TEST_CASE("a state is believed after three bad samples in a row, an event and a delta after one") {
  struct Row {
    std::string check;
    int needed;
  };
  for (const Row& row : {Row{"ib.phys", 3}, Row{"event.a", 1}, Row{"delta.a", 1}}) {
    INFO(row.check);
    WatchedNode node;
    node.run(a_failure(row.check), row.needed - 1);
    CHECK_FALSE(node.is_drained());
    node.run(a_failure(row.check));
    CHECK(node.is_drained());
  }
}

TEST_CASE("a pass ends a row of bad samples") {
  WatchedNode node;
  for (int i = 0; i < 20; ++i) {
    node.run(a_failure("ib.phys", "mlx5_0:1"), 2);
    node.run(a_pass("ib.phys", "mlx5_0:1"));
  }
  CHECK_FALSE(node.is_drained());
}

TEST_CASE("a row is of one check on one device") {
  WatchedNode node;
  node.run(a_failure("ib.phys", "mlx5_0:1"), 2);
  node.run(a_failure("ib.phys", "mlx5_1:1"), 2);
  node.run(a_failure("ib.rate", "mlx5_0:1"), 2);
  CHECK_FALSE(node.is_drained());
}

TEST_CASE("unknown neither ends nor lengthens a row of bad samples") {
  WatchedNode node;
  node.run(a_failure("ib.phys"), 2);
  node.run(an_unknown("ib.phys"), 10);
  CHECK_FALSE(node.is_drained());
  node.run(a_failure("ib.phys"));
  CHECK(node.is_drained());
}

TEST_CASE("three unknowns in a row of a required check drain, class setup") {
  WatchedNode node;
  node.profile.required = {"gpu.count"};
  node.run(an_unknown("gpu.other"), 10);
  node.run(an_unknown("gpu.count"), 2);
  CHECK_FALSE(node.is_drained());
  node.run(an_unknown("gpu.count"));
  const NodeVerdict verdict = node.verdict();
  REQUIRE(verdict.drains.size() == 1);
  CHECK(verdict.drains.front().finding.fault_class == FaultClass::setup);
  CHECK(verdict.reason().starts_with("muster:setup:gpu.count: "));
}

TEST_CASE("an answer between unknowns begins their row anew") {
  WatchedNode node;
  node.profile.required = {"gpu.count"};
  for (int i = 0; i < 5; ++i) {
    node.run(an_unknown("gpu.count"), 2);
    node.run(i % 2 == 0 ? a_pass("gpu.count") : a_failure("gpu.count", "", {}));
  }
  CHECK_FALSE(node.is_drained());
}

TEST_CASE("what was read and is bad takes the place of what could not be read") {
  WatchedNode node;
  node.profile.required = {"gpu.count"};
  node.run(an_unknown("gpu.count"), 3);
  node.run(a_failure("gpu.count", "", {Remedy::reset, Remedy::reboot, false}), 3);
  REQUIRE(node.verdict().drains.size() == 1);
  CHECK(node.verdict().worst() == Remedy::reset);
  CHECK(node.verdict().drains.front().finding.fault_class == FaultClass::node);
}

TEST_CASE("an agent that does not answer counts without a profile") {
  WatchedNode node;
  node.run(an_unknown("host.agent"), 3);
  CHECK(node.is_drained());
}

TEST_CASE("the first bad sample asks for more of the same") {
  WatchedNode node;
  node.profile.required = {"gpu.count"};
  node.profile.checks["ib.off"].mode = CheckMode::off;
  node.run({a_failure("ib.phys", "mlx5_0:1"), a_pass("ib.rate"), an_unknown("ib.lid"),
            an_unknown("gpu.count"), a_failure("event.a"), a_failure("ib.off")});
  const std::vector<SampleWanted> both{{"gpu.count", ""}, {"ib.phys", "mlx5_0:1"}};
  CHECK(samples_wanted(node.streaks, node.rules) == both);
  node.run({a_pass("gpu.count"), a_failure("ib.phys", "mlx5_0:1")}, 2);
  CHECK(node.is_drained());
  CHECK(samples_wanted(node.streaks, node.rules).empty());
}

TEST_CASE("links are given their time after a boot") {
  WatchedNode node;
  node.uptime = Seconds{30};
  node.run(a_failure("ib.state", "mlx5_0:1"), 10);
  CHECK_FALSE(node.is_drained());
  CHECK(samples_wanted(node.streaks, node.rules).empty());
  node.run(a_failure("gpu.count"), 3);
  CHECK(node.is_drained());
  WatchedNode later;
  later.uptime = Seconds{300};
  later.run(a_failure("ib.state", "mlx5_0:1"), 3);
  CHECK(later.is_drained());
}

TEST_CASE("the profile sets samples and modes, and leaves devices out") {
  WatchedNode node;
  node.profile.checks["ib.phys"].samples = 5;
  node.profile.checks["ib.rate"].mode = CheckMode::observe;
  node.profile.checks["ib.lid"].mode = CheckMode::off;
  node.profile.exclude = {{"ib.*", "mlx5_an0", "management"}};
  node.run({a_failure("ib.phys"), a_failure("ib.rate"), a_failure("ib.lid"),
            a_failure("ib.pkey", "mlx5_an0:1"), a_failure("ib.pkey", "mlx5_an0")},
           4);
  CHECK_FALSE(node.is_drained());
  REQUIRE(node.verdict().would_drain.size() == 1);
  CHECK(node.verdict().would_drain.front().finding.check == "ib.rate");
  node.run(a_failure("ib.phys"));
  CHECK(node.is_drained());
}

TEST_CASE("a check that the profile neither sets nor requires observes") {
  HealthProfile profile;
  profile.required = {"gpu.count", "ib.*"};
  profile.checks["host.mem"].mode = CheckMode::enforce;
  profile.checks["ib.rate"].mode = CheckMode::observe;
  const CheckRules rules = rules_of(profile);
  CHECK(mode_of(rules, "gpu.count", "") == CheckMode::enforce);
  CHECK(mode_of(rules, "ib.state", "mlx5_0:1") == CheckMode::enforce);
  CHECK(mode_of(rules, "ib.rate", "mlx5_0:1") == CheckMode::observe);
  CHECK(mode_of(rules, "host.mem", "") == CheckMode::enforce);
  CHECK(mode_of(rules, "host.swap", "") == CheckMode::observe);
  CHECK(mode_of(rules, "host.agent", "") == CheckMode::enforce);
}

TEST_CASE("limits that make no sense do no harm") {
  HealthProfile profile;
  profile.checks["a"].samples = -3;
  profile.checks["a"].limits["clear_after_s"] = -1;
  profile.checks["b"].limits["clear_after_s"] = 1e300;
  const CheckRules rules = rules_of(profile);
  CHECK(bad_samples_needed(rules, "a") == 1);
  CHECK(passes_needed(rules, "a") == 3);
  CHECK(clean_time_needed(rules, "a") == Seconds{0});
  CHECK(clean_time_needed(rules, "b") == Seconds{30 * 86'400});
}

TEST_CASE("a state is over after three passes in a row") {
  WatchedNode node;
  node.run(a_failure("ib.phys"), 3);
  node.run(a_pass("ib.phys"), 2);
  node.run(an_unknown("ib.phys"));
  node.run(a_pass("ib.phys"), 2);
  CHECK(node.is_drained());
  node.run(a_pass("ib.phys"));
  CHECK_FALSE(node.is_drained());
}

TEST_CASE("an event is over only a while after the last one") {
  WatchedNode node;
  node.run(a_failure("event.a"));
  node.run(a_pass("event.a"), 10);
  CHECK(node.is_drained());
  node.now += clear_after_event;
  node.run(a_pass("event.a"));
  CHECK_FALSE(node.is_drained());
}

TEST_CASE("an event that called for a reset is over only after the reset, and passes after it") {
  WatchedNode node;
  node.run(an_xid("48", {Remedy::reset, Remedy::rma, true}, "gpu3"));
  node.now += Seconds{3600};
  node.run(a_pass("gpu.xid", "gpu3"), 10);
  CHECK(node.is_drained());
  note_reset(node.streaks, "gpu2", node.now);
  node.run(a_pass("gpu.xid", "gpu3"), 10);
  CHECK(node.is_drained());
  note_reset(node.streaks, "gpu3", node.now);
  node.run(a_pass("gpu.xid", "gpu3"), 2);
  CHECK(node.is_drained());
  node.run(a_pass("gpu.xid", "gpu3"));
  CHECK_FALSE(node.is_drained());
}

TEST_CASE(
    "after its remedy an event is over within a minute, unless the profile has it otherwise") {
  WatchedNode node;
  const bool is_set = GENERATE(false, true);
  if (is_set) node.profile.checks["gpu.xid"].limits["clear_after_s"] = 3600;
  node.run(
      {an_xid("48", {Remedy::reset, Remedy::rma, true}, "gpu3"), a_failure("delta.a", "gpu3")});
  CHECK(samples_after_remedy(node.streaks, node.rules).empty());
  note_reset(node.streaks, "gpu3", node.now);
  const std::vector<HealthFinding> passes{a_pass("gpu.xid", "gpu3"), a_pass("delta.a", "gpu3")};
  node.run(passes, 2);
  CHECK(samples_after_remedy(node.streaks, node.rules) ==
        std::vector<SampleWanted>{{"delta.a", "gpu3"}, {"gpu.xid", "gpu3"}});
  node.run(passes);
  CHECK(samples_after_remedy(node.streaks, node.rules).empty());
  CHECK(node.verdict().drains.size() == 2);
  node.now += clear_after_remedy;
  node.run(passes);
  CHECK(find_streak(node.streaks, "gpu.xid", "gpu3", "48")->fault.has_value() == is_set);
  CHECK(find_streak(node.streaks, "delta.a", "gpu3")->fault);  // no reset was called for
}

TEST_CASE("a reset is no reboot, and neither ends rma") {
  WatchedNode node;
  node.run({an_xid("79", {Remedy::reboot, Remedy::rma, true}, "gpu0"),
            a_failure("event.rma", "gpu0", {Remedy::rma, {}, false})});
  const std::vector<HealthFinding> passes{a_pass("gpu.xid"), a_pass("event.rma")};
  node.now += Seconds{3600};
  note_reset(node.streaks, "gpu0", node.now);
  node.run(passes, 5);
  CHECK(node.verdict().drains.size() == 2);
  note_reboot(node.streaks, node.now);
  node.run(passes, 5);
  REQUIRE(node.verdict().drains.size() == 1);
  CHECK(node.verdict().worst() == Remedy::rma);
}

TEST_CASE("a measurement that passes again needs no proof of a repair") {
  WatchedNode node;
  node.run(a_failure("perf.hbm", "gpu0", {Remedy::rma, {}, false}), 3);
  REQUIRE(node.is_drained());
  node.now += Seconds{3600};
  node.run(a_pass("perf.hbm", "gpu0"), 3);
  CHECK_FALSE(node.is_drained());
}

TEST_CASE("a state that called for rma is held though it passes") {
  WatchedNode node;
  node.run(a_failure("gpu.remap_failure", "gpu0", {Remedy::rma, {}, false}), 3);
  node.run(a_pass("gpu.remap_failure", "gpu0"), 100);
  CHECK(node.is_drained());
}

TEST_CASE("a boot ends what was only suspected") {
  WatchedNode node;
  node.run(a_failure("ib.phys"), 2);
  note_reboot(node.streaks, node.now);
  node.run(a_failure("ib.phys"));
  CHECK_FALSE(node.is_drained());
}

TEST_CASE("causes of one check on one device stand apart, and a pass is one of all") {
  WatchedNode node;
  node.run({an_xid("13", {Remedy::warn, {}, false}, "gpu3"),
            an_xid("79", {Remedy::reboot, {}, true}, "gpu3"), a_pass("gpu.xid", "gpu3")});
  CHECK(node.verdict().warnings.size() == 1);
  REQUIRE(node.verdict().drains.size() == 1);
  CHECK(find_streak(node.streaks, "gpu.xid", "gpu3", "79")->passed == 0);
  node.run(a_pass("gpu.xid", "gpu3"), 2);
  CHECK(find_streak(node.streaks, "gpu.xid", "gpu3", "79")->passed == 2);
  node.run(an_xid("13", {Remedy::warn, {}, false}, "gpu3"));
  CHECK(find_streak(node.streaks, "gpu.xid", "gpu3", "79")->passed == 0);
}

TEST_CASE("a pass of the whole node is one of each device that the run is silent about") {
  WatchedNode node;
  node.run({a_failure("delta.a", "gpu0"), a_failure("delta.a", "gpu1")});
  node.now += clear_after_event;
  node.run({a_pass("delta.a"), a_failure("delta.a", "gpu1")}, 3);
  REQUIRE(node.verdict().drains.size() == 1);
  CHECK(node.verdict().drains.front().finding.device == "gpu1");
}

TEST_CASE("a check whose name begins with another's is another") {
  WatchedNode node;
  node.run(a_failure("ib.rate2", "p"), 3);
  node.run(a_pass("ib.rate"), 5);
  CHECK(node.is_drained());
}

TEST_CASE("a device that is never seen again stays drained") {
  WatchedNode node;
  node.run(a_failure("ib.phys", "mlx5_3:1"), 3);
  node.run(a_pass("ib.phys", "mlx5_2:1"), 100);
  CHECK(node.is_drained());
}

TEST_CASE("a fault that gets worse keeps its name and age; a milder sample changes nothing") {
  WatchedNode node;
  node.run(a_failure("ib.state", "p", {Remedy::drain, {}, false}), 3);
  const ActiveFault before = node.verdict().drains.front();
  node.run(a_failure("ib.state", "p", {Remedy::reboot, {}, true}));
  node.run(a_failure("ib.state", "p", {Remedy::warn, {}, false}));
  const ActiveFault after = node.verdict().drains.front();
  CHECK(after.severity.remedy == Remedy::reboot);
  CHECK(after.severity.stops_job);
  CHECK(after.id == before.id);
  CHECK(after.since == before.since);
  CHECK(after.last_bad > before.last_bad);
}

TEST_CASE("a counter that warns drains when it grows in half of its reads, not now and then") {
  const HealthFinding warning =
      a_failure("delta.replay", "gpu3", {Remedy::warn, Remedy::drain, false});
  WatchedNode rare;
  WatchedNode often;
  for (int read = 0; read < 200; ++read) {
    rare.run(read % 6 == 0 ? warning : a_pass("delta.replay", "gpu3"));
    often.run(read % 2 == 0 ? warning : a_pass("delta.replay", "gpu3"));
    CHECK_FALSE(rare.is_drained());
    CHECK(often.is_drained() == (read >= 28));
  }
  CHECK_FALSE(rare.verdict().warnings.empty());
}

TEST_CASE("a state that only warns does so for ever") {
  WatchedNode node;
  node.run(a_failure("samples.mild", "p", {Remedy::warn, Remedy::drain, false}), 100);
  CHECK_FALSE(node.is_drained());
}

TEST_CASE("names without end do not fill the memory, and faults outlive them") {
  WatchedNode node;
  node.run(a_failure("event.a", "gpu0"));
  for (std::size_t i = 0; i < streaks_kept + 100; ++i) {
    add_findings(node.streaks, {a_pass("aaa", "d" + std::to_string(i))}, node.rules,
                 {node.now, {}, {}});
  }
  CHECK(node.streaks.by_key.size() == streaks_kept);
  CHECK(node.is_drained());
}

TEST_CASE("a fault outlives names that come after its own, and faults alone are bounded too") {
  WatchedNode node;
  const auto add = [&](const HealthFinding& finding) {
    add_findings(node.streaks, {finding}, node.rules, {node.now, {}, {}});
  };
  node.run(a_failure("event.a", "gpu0"));
  for (std::size_t i = 0; i < streaks_kept + 100; ++i) add(a_pass("zzz", "d" + std::to_string(i)));
  CHECK(node.streaks.by_key.size() == streaks_kept);
  CHECK(find_streak(node.streaks, "event.a", "gpu0") != nullptr);
  CHECK(node.is_drained());
  for (std::size_t i = 0; i < streaks_kept + 100; ++i) {
    add(a_failure("event.b", "d" + std::to_string(i)));
  }
  CHECK(node.streaks.by_key.size() == streaks_kept);
}

TEST_CASE("what the log told of no device passes when all devices do") {
  WatchedNode node;
  HealthFinding nameless = a_failure("gpu.xid", "", {Remedy::reset, {}, false});
  nameless.source = "kmsg";
  node.run(nameless);
  CHECK(node.is_drained());
  note_reboot(node.streaks, node.now);
  node.now += clear_after_event;
  node.run({a_pass("gpu.xid", "gpu0"), a_failure("gpu.xid", "gpu1")}, 3);
  CHECK(find_streak(node.streaks, "gpu.xid", "")->fault);
  node.run({a_pass("gpu.xid", "gpu0"), a_pass("gpu.xid", "gpu1")}, 3);
  CHECK_FALSE(find_streak(node.streaks, "gpu.xid", "")->fault);
}

TEST_CASE("a fault says until when it stands") {
  ActiveFault fault;
  fault.finding = a_failure("event.a");
  fault.persistence = Persistence::event;
  const auto until = [&](Remedy remedy) {
    fault.severity.remedy = remedy;
    return stands_until(fault);
  };
  CHECK(until(Remedy::drain) == "its check has passed for a time");
  CHECK(until(Remedy::reset) == "a reset");
  CHECK(until(Remedy::reboot) == "a reboot");
  CHECK(until(Remedy::rma) == "somebody says that it was repaired");
  fault.repaired_at = from_ms(1);
  CHECK(until(Remedy::reboot) == "its check has passed for a time");
}

TEST_CASE("reasons are written and recognised") {
  HealthFinding finding = a_failure("ib.symbol", "mlx5_3:1");
  finding.serial = "MT24";
  const auto reason_of = [](const HealthFinding& one) {
    return drain_reason(one.fault_class, one.check, one.device, finding_id(one));
  };
  const std::string text = text_of(reason_of(finding));
  CHECK(text == "muster:node:ib.symbol:mlx5_3:1 " + finding_id(finding));
  CHECK(parse_drain_reason(text) == reason_of(finding));
  CHECK(parse_drain_reason(text + " [root@2026-03-01T10:00:00]"));
  const HealthFinding odd = a_failure("my rule: x", "a b\n\xff");
  const std::string odd_text = text_of(reason_of(odd));
  CHECK(odd_text.starts_with("muster:node:my_rule__x:a_b__ "));
  CHECK(parse_drain_reason(odd_text));
}

TEST_CASE("anything else is somebody else's reason") {
  const std::string own = "muster:node:ib.symbol:mlx5_3:1 01234567";
  REQUIRE(parse_drain_reason(own));
  for (const std::string& text :
       {std::string{}, std::string("fan"), std::string("muster:"), std::string("muster:node:a:b"),
        std::string("muster:none:a:b 01234567"), std::string("muster:node::b 01234567"),
        std::string("muster:node:a:b 0123456"), std::string("muster:node:a:b 0123456x"), "x" + own,
        " " + own, own + " ", own + "8", own + " do not touch, bob", own + " [root@2026-03-01] bob",
        own + " bob [root@2026-03-01]", own + "\n", std::string("Muster:node:a:b 01234567")}) {
    INFO(text);
    CHECK_FALSE(parse_drain_reason(text));
  }
}

TEST_CASE("an id is that of check, device, serial and cause, and of nothing else") {
  const HealthFinding finding = a_failure("ab", "c");
  HealthFinding same = finding;
  same.value = "7";
  same.evidence = {"line"};
  CHECK(finding_id(finding) == finding_id(same));
  CHECK(finding_id(finding) != finding_id(a_failure("a", "bc")));
  HealthFinding other = finding;
  other.serial = "1";
  CHECK(finding_id(finding) != finding_id(other));
  CHECK(finding_id(an_xid("13", {}, "gpu0")) != finding_id(an_xid("79", {}, "gpu0")));
  CHECK(finding_id(finding).size() == 8);
  CHECK(cause_code(an_xid("XID 79, pid 4", {}, "gpu0")) == "79");
}

TEST_CASE("no bytes make a reason of their own") {
  std::mt19937_64 random(7);
  const std::string own = "muster:node:ib.symbol:mlx5_3:1 01234567 [root@x]";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = own.substr(0, random() % (own.size() + 1));
    for (int changes = static_cast<int>(random() % 4); changes > 0 && !text.empty(); --changes) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto reason = parse_drain_reason(text);
    if (reason) CHECK(text.starts_with(text_of(*reason)));
  }
}
