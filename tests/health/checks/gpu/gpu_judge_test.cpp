#include "health/checks/gpu/gpu_check.h"

#include "health/model/check.h"
#include "tests/catch.h"
#include "tests/health/gpu_node.h"

using namespace muster;

namespace {

// Of the lines in a healthy node, a minute after it was healthy.
std::vector<HealthFinding> findings_with(const std::string& lines) {
  return judged_readings(healthy_but(lines), &healthy_readings());
}

struct Sick {
  const char* lines;
  const char* check;
  const char* device;
  const char* severity;
  FaultClass fault_class = FaultClass::node;
};

}  // namespace

TEST_CASE("a healthy node passes everything, and all that can be judged is") {
  const auto findings = findings_with("");
  for (const HealthFinding& one : findings) {
    INFO(one.check << " " << one.device << " " << one.value << " "
                   << (one.evidence.empty() ? "" : one.evidence.front()));
    CHECK(one.status == CheckStatus::pass);
  }
  // What the profile does not name, what this generation does not have, what others judge.
  const std::vector<std::string> left_out = {"gpu.retired_pages", "gpu.gsp",  "gpu.peermem",
                                             "gpu.env",           "gpu.topo", "gpu.dstate",
                                             "gpu.nvlink_err5"};
  for (const CheckSpec& spec : gpu_checks()) {
    const bool is_judged = finding_of(findings, spec.id, "") != nullptr ||
                           finding_of(findings, spec.id, "gpu7") != nullptr;
    INFO(spec.id);
    CHECK(is_judged == (std::ranges::find(left_out, spec.id) == left_out.end()));
  }
  CHECK(finding_of(findings, "gpu.lost", "gpu3")->serial == "1652323041111");
}

TEST_CASE("a healthy older node passes everything") {
  const GpuReadings now = FakeNvml(health_data("nvml-a100-8.txt")).read();
  HealthProfile profile = h100_profile();
  profile.gpu = {8, 12, 25000, 4, 16, true, false, true};
  const auto findings = judged_readings(now, nullptr, true, profile);
  for (const HealthFinding& one : findings) {
    INFO(one.check);
    CHECK((one.status != CheckStatus::fail || one.check == "gpu.versions"));
  }
  // Its driver tells no recovery action: left out, but not where it is required.
  CHECK(finding_of(findings, "gpu.recovery_action", "gpu0") == nullptr);
  for (const char* pattern : {"gpu.recovery_action", "gpu.*"}) {
    INFO(pattern);
    profile.required = {pattern};
    const auto required = judged_readings(now, nullptr, true, profile);
    REQUIRE(finding_of(required, "gpu.recovery_action", "gpu0") != nullptr);
    CHECK(finding_of(required, "gpu.recovery_action", "gpu0")->status == CheckStatus::unknown);
  }
}

TEST_CASE("what is wrong with a GPU leads to its remedy") {
  const FaultClass setup = FaultClass::setup;
  const Sick rows[] = {
      {"gpu3.field.230 1", "gpu.recovery_action", "gpu3", "!reset"},
      {"gpu3.field.230 2", "gpu.recovery_action", "gpu3", "!reboot"},
      {"gpu3.field.230 3", "gpu.recovery_action", "gpu3", "!drain"},
      {"gpu3.field.230 4", "gpu.recovery_action", "gpu3", "reset"},
      {"gpu3.field.230 5", "gpu.recovery_action", "gpu3", "drain", setup},
      {"gpu3.field.230 7", "gpu.recovery_action", "gpu3", "!reboot"},
      {"gpu3.field.230 99", "gpu.recovery_action", "gpu3", "drain"},
      {"gpu3.name.rc 15", "gpu.lost", "gpu3", "!reboot>rma"},
      {"gpu3.name.rc 16", "gpu.lost", "gpu3", "!reset"},
      {"gpu3.ecc.pending 0", "gpu.ecc_mode", "gpu3", "reboot", setup},
      {"gpu3.field.4 1", "gpu.ecc_dbe", "gpu3", "!reset>rma"},
      {"gpu3.field.6 2", "gpu.ecc_dbe", "gpu3", "!reset>rma"},
      {"gpu3.ecc.dram.cor.aggregate 20000001", "gpu.ecc_sbe", "gpu3", "warn"},
      {"gpu3.ecc.sram.cor.aggregate 10001", "gpu.ecc_sbe", "gpu3", "warn"},
      {"gpu3.sram.exceeded 1", "gpu.sram_unc", "gpu3", "rma"},
      {"gpu3.sram.secded.aggregate 1", "gpu.sram_unc", "gpu3", "reset"},
      {"gpu3.remap.failure 1", "gpu.remap_failure", "gpu3", "rma"},
      {"gpu3.remap.failure.rc 999\ngpu3.field.145 1", "gpu.remap_failure", "gpu3", "rma"},
      {"gpu3.remap.pending 1", "gpu.remap_pending", "gpu3", "reset"},
      {"gpu3.remap.unc 512", "gpu.remap_count", "gpu3", "rma"},
      {"gpu3.remap.banks.none 1", "gpu.remap_count", "gpu3", "warn"},
      {"gpu3.remap.banks.low 17", "gpu.remap_count", "gpu3", "warn"},
      {"gpu3.retired.sbe 60\ngpu3.retired.dbe 4", "gpu.retired_pages", "gpu3", "rma"},
      {"gpu3.retired.sbe 1\ngpu3.retired.dbe 0\ngpu3.retired.pending 1", "gpu.retired_pages",
       "gpu3", "reset"},
      {"gpu3.unrepairable 1", "gpu.unrepairable", "gpu3", "rma"},
      {"gpu3.repair.tpc 1", "gpu.repair_pending", "gpu3", "reset"},
      {"gpu3.link.17.state 0", "gpu.nvlink_active", "gpu3", "reset>rma"},
      {"gpu3.field.91 17", "gpu.nvlink_active", "gpu3", "pass"},  // all 18 say that they are up
      {"gpu3.field.164.5 13281", "gpu.nvlink_speed", "gpu3", "drain"},
      {"gpu3.field.38 5999", "gpu.nvlink_err4", "gpu3", "warn>drain"},
      {"gpu3.field.38 6000", "gpu.nvlink_err4", "gpu3", "drain"},
      {"gpu3.field.52 1", "gpu.nvlink_err4", "gpu3", "warn>drain"},
      {"gpu3.field.59.rc 3\ngpu3.field.162.4 1", "gpu.nvlink_err4", "gpu3", "warn>drain"},
      {"gpu3.fabric.state 2", "gpu.fabric", "gpu3", "drain>reboot", setup},
      {"gpu3.fabric.status 999", "gpu.fabric", "gpu3", "drain>reboot", setup},
      {"gpu3.fabric.summary 2", "gpu.fabric", "gpu3", "drain>reboot", setup},
      {"gpu3.fabric.summary 0\ngpu3.fabric.mask 0x1a9", "gpu.fabric", "gpu3", "drain>reboot",
       setup},
      {"gpu3.pcie.max_gen 4", "gpu.pcie_link", "gpu3", "drain>rma"},
      {"gpu3.field.94 32", "gpu.pcie_replay", "gpu3", "warn"},
      {"gpu3.clocks.reasons 0x48", "gpu.throttle", "gpu3", "drain"},
      {"gpu3.clocks.reasons 0x20", "gpu.throttle", "gpu3", "warn"},
      {"gpu3.field.270 600000000", "gpu.throttle", "gpu3", "drain"},
      {"gpu3.field.269 600000000", "gpu.throttle", "gpu3", "warn"},
      {"gpu3.temp.margin 0", "gpu.temp", "gpu3", "warn"},
      {"gpu3.temp.margin -2\ngpu3.clocks.reasons 0x40", "gpu.temp", "gpu3", "drain"},
      {"gpu3.temp.margin.rc 3\ngpu3.temp.gpu 90", "gpu.temp", "gpu3", "warn"},
      {"gpu3.field.82 96", "gpu.temp", "gpu3", "warn"},
      {"gpu3.persistence 0", "gpu.persistence", "gpu3", "drain", setup},
      {"gpu3.mig.pending 1", "gpu.modes", "gpu3", "drain", setup},
      {"gpu3.compute_mode 3", "gpu.modes", "gpu3", "drain", setup},
      {"gpu3.power.enforced 500000", "gpu.power_limit", "gpu3", "drain", setup},
      {"gpu3.power.enforced 700001", "gpu.power_limit", "gpu3", "drain", setup},
      {"gpu3.clock.app.sm 1200", "gpu.clocks", "gpu3", "drain", setup},
      {"gpu3.clock.app.mem 1593", "gpu.clocks", "gpu3", "drain", setup},
      // Drivers that do not tell what is usual: most others of the node do.
      {"gpu*.clock.default.sm.rc 13\ngpu3.clock.app.sm 1200", "gpu.clocks", "gpu3", "drain", setup},
      {"gpu3.clock.app.sm 1950", "gpu.clocks", "gpu3", "pass"},
      {"gpu3.name NVIDIA H100 PCIe", "gpu.versions", "gpu3", "drain", setup},
      {"gpu3.procs 41:1073741824", "gpu.procs", "gpu3", "drain"},
      {"gpu3.memory.used 1073741824", "gpu.procs", "gpu3", "reset"},
      {"gpu3.inforom.rc 14", "gpu.inforom", "gpu3", "rma"},
      {"gpu3.vbios 96.00.61.00.01", "gpu.versions", "gpu3", "warn", setup},
      {"driver 570.86.15", "gpu.versions", "", "reboot", setup},
      {"gpu3.bdf 00000000:77:00.0", "gpu.identity", "gpu3", "warn"},
      {"gpu3.uuid GPU-other", "gpu.identity", "gpu3", "warn"},
      {"count 7", "gpu.count", "", "reset>reboot"},
      {"count 9", "gpu.count", "", "drain", setup},
      {"init.rc 9", "gpu.nvml_init", "", "drain", setup},
      {"init.rc 18", "gpu.nvml_init", "", "reboot", setup},
      {"init.rc 11", "gpu.nvml_init", "", "reboot"},
  };
  for (const Sick& row : rows) {
    INFO(row.lines);
    const auto findings = findings_with(row.lines);
    const HealthFinding* found = finding_of(findings, row.check, row.device);
    REQUIRE(found != nullptr);
    if (std::string_view(row.severity) == "pass") {
      CHECK(found->status == CheckStatus::pass);
      continue;
    }
    CHECK(found->status == CheckStatus::fail);
    CHECK(text_of(found->severity) == row.severity);
    CHECK(found->fault_class == row.fault_class);
    CHECK_FALSE(found->value.empty());
    CHECK_FALSE(found->expected.empty());
    // Nothing else on the node fails for it, but for what the same reading says.
    std::string others;
    for (const HealthFinding& other : findings) {
      const bool is_kin =
          other.check == row.check || other.check == "gpu.throttle" || other.check == "gpu.temp";
      if (!is_kin && other.status == CheckStatus::fail) others += other.check + " ";
    }
    CHECK(others.empty());
  }
}

TEST_CASE("what could not be read is unknown, with the reason") {
  const Sick rows[] = {
      {"gpu3.remap.failure.rc 999\ngpu3.field.145.rc 4", "gpu.remap_failure", "gpu3", "999"},
      {"gpu3.persistence.rc 13", "gpu.persistence", "gpu3", "function not found (13)"},
      {"gpu3.clocks.reasons what", "gpu.throttle", "gpu3", "no number: what"},
      {"gpu3.link.4.state.rc 999", "gpu.nvlink_active", "gpu3", "999"},
      {"gpu3.inforom.rc 999", "gpu.inforom", "gpu3", "unknown error (999)"},
      {"gpu3.handle.rc 4", "gpu.lost", "gpu3", "no permission (4)"},
      {"init.rc 999", "gpu.nvml_init", "", "unknown error (999)"},
      {"count.rc 999", "gpu.count", "", "unknown error (999)"},
      {"driver.rc 999", "gpu.versions", "", "no version"},
      {"gpu3.field.4 18446744073709551615\ngpu3.ecc.unc.volatile.rc 999\ngpu3.field.6.rc 999\n"
       "gpu3.ecc.unc.aggregate.rc 999",
       "gpu.ecc_dbe", "gpu3", "no number"},
  };
  for (const Sick& row : rows) {
    INFO(row.lines);
    const auto findings = findings_with(row.lines);
    const HealthFinding* found = finding_of(findings, row.check, row.device);
    REQUIRE(found != nullptr);
    CHECK(found->status == CheckStatus::unknown);
    REQUIRE_FALSE(found->evidence.empty());
    CHECK_THAT(found->evidence.front(), ContainsSubstring(row.severity));
  }
}

TEST_CASE("after a hang the rest is unknown and names the call") {
  GpuReadings now = parse_gpu_readings(
      "init ok\ncount 1\ngpu0.handle ok\ngpu0.uuid GPU-a\n"
      "calling gpu0.nvmlDeviceGetEccMode\n");
  const auto findings = judged_readings(now);
  const HealthFinding* found = finding_of(findings, "gpu.ecc_mode", "gpu0");
  REQUIRE(found != nullptr);
  CHECK(found->status == CheckStatus::unknown);
  CHECK_THAT(found->evidence.front(), ContainsSubstring("gpu0.nvmlDeviceGetEccMode"));
  now = parse_gpu_readings("calling nvmlInit\n");
  const auto silent = judged_readings(now);
  REQUIRE(finding_of(silent, "gpu.nvml_init", "") != nullptr);
  CHECK(finding_of(silent, "gpu.nvml_init", "")->status == CheckStatus::fail);
  CHECK(finding_of(silent, "gpu.count", "")->status == CheckStatus::unknown);
}

TEST_CASE("what was not asked for want of a helper is unknown, and no fault of the driver") {
  for (const char* lines : {"init ok\ncount 1\ngpu0.handle ok\ngpu0.uuid GPU-a\n", ""}) {
    const GpuReadings now = parse_gpu_readings(
        std::string(lines) + "calling nvmlInit\nstopped the helper died of signal 9\n");
    const auto findings = judged_readings(now);
    const HealthFinding* found = *lines == '\0' ? finding_of(findings, "gpu.nvml_init", "")
                                                : finding_of(findings, "gpu.ecc_mode", "gpu0");
    REQUIRE(found != nullptr);
    CHECK(found->status == CheckStatus::unknown);
    CHECK_THAT(found->evidence.front(), ContainsSubstring("the helper died of signal 9"));
  }
}

TEST_CASE("the driver's verdict overrides the table's") {
  const auto findings = findings_with(
      "gpu3.field.230 1\ngpu3.remap.failure 1\ngpu3.persistence 0\ngpu4.remap.failure 1");
  const HealthFinding* followed = finding_of(findings, "gpu.remap_failure", "gpu3");
  REQUIRE(followed != nullptr);
  CHECK(text_of(followed->severity) == "!reset>rma");
  CHECK_THAT(followed->evidence.front(), ContainsSubstring("GPU reset"));
  CHECK(text_of(finding_of(findings, "gpu.remap_failure", "gpu4")->severity) == "rma");
  CHECK(text_of(finding_of(findings, "gpu.persistence", "gpu3")->severity) == "drain");
}

TEST_CASE("growth is judged on the same board alone, and a reset starts anew") {
  const GpuReadings then = healthy_but("gpu3.field.4 7\ngpu3.field.6 7\ngpu5.field.4 3");
  // gpu3 and gpu5 change places.
  const std::string three(*healthy_readings().text("gpu3.uuid"));
  const std::string five(*healthy_readings().text("gpu5.uuid"));
  const GpuReadings swapped = healthy_but("gpu3.uuid " + five + "\ngpu5.uuid " + three +
                                          "\ngpu3.field.4 3\ngpu5.field.4 7\ngpu5.field.6 7");
  const auto moved = judged_readings(swapped, &then, false);
  CHECK(finding_of(moved, "gpu.ecc_dbe", "gpu3")->status == CheckStatus::pass);
  CHECK(finding_of(moved, "gpu.ecc_dbe", "gpu5")->status == CheckStatus::pass);
  // Counters that went back: nothing to compare with.
  const GpuReadings now = healthy_but("gpu3.field.4 2\ngpu3.field.6 2");
  const auto anew = judged_readings(now, &then, false);
  CHECK(finding_of(anew, "gpu.ecc_dbe", "gpu3") == nullptr);
  // No earlier look, no growth.
  const auto first = judged_readings(now, nullptr, false);
  CHECK(finding_of(first, "gpu.ecc_dbe", "gpu3") == nullptr);
}

TEST_CASE("errors of fifth-generation links") {
  const GpuReadings then = healthy_but("gpu3.field.208.0 5\ngpu3.field.215.17 1");
  const GpuReadings now = healthy_but("gpu3.field.208.0 5\ngpu3.field.215.17 2");
  const auto findings = judged_readings(now, &then, false);
  REQUIRE(finding_of(findings, "gpu.nvlink_err5", "gpu3") != nullptr);
  CHECK(finding_of(findings, "gpu.nvlink_err5", "gpu3")->value == "1");
  CHECK(finding_of(findings, "gpu.nvlink_err5", "gpu4") == nullptr);
}
