// What a profile file may set under a check's name, and what the check makes of it.
#include <algorithm>

#include "health/checks/check_names.h"
#include "health/checks/gpu/gpu_check.h"
#include "health/model/check.h"
#include "templates/profile/reader.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

HealthProfileFile limits_read(const std::string& checks) {
  return read_health_profile(
      "site.yml", "profile: a\ngpu: {mig: false}\nchecks: {" + checks + "}\n", names_of_checks());
}

// One GPU, synthetic, in the form of the fake library.
CheckStatus judged_by(const HealthProfile& profile, std::string_view check) {
  const GpuReadings readings = parse_gpu_readings(
      "count 1\ngpu0.uuid GPU-1\ngpu0.bdf 00000000:3B:00.0\ngpu0.gsp.mode 0\n"
      "gpu0.mig.current 0\ngpu0.mig.pending 0\ngpu0.compute_mode 3\n"
      "gpu0.ecc.dram.cor.aggregate 50\ngpu0.ecc.sram.cor.aggregate 5\ngpu0.remap.unc 3\n"
      "gpu0.remap.banks.none 0\ngpu0.remap.banks.low 2\ngpu0.retired.sbe 5\n"
      "gpu0.retired.dbe 1\ngpu0.retired.pending 0\ncomplete 1\n");
  SourceFiles files;
  files.add("/proc/modules", std::string("nvidia 1 0 - Live 0x0\n"));
  files.add(pci_file("0000:3b:00.0", "numa_node"), std::string("1\n"));
  const auto findings = judge_gpus({readings, files, profile});
  const auto found = std::ranges::find(findings, check, &HealthFinding::check);
  REQUIRE(found != findings.end());
  return found->status;
}

}  // namespace

TEST_CASE("a limit in a profile's file decides the check") {
  struct Row {
    const char* check;
    const char* fails;
    const char* passes;
  };
  const Row rows[] = {
      {"gpu.peermem", "loaded: 1", "loaded: 0"},
      {"gpu.gsp", "enabled: 1", "enabled: 0"},
      {"gpu.topo", "gpu0_numa_node: 0", "gpu0_numa_node: 1"},
      {"gpu.modes", "compute_mode: 0", "compute_mode: 3"},
      {"gpu.ecc_sbe", "dram_max: 49", "dram_max: 50"},
      {"gpu.ecc_sbe", "sram_max: 4", "sram_max: 5"},
      {"gpu.remap_count", "low_banks_max: 1", "low_banks_max: 2"},
      {"gpu.retired_pages", "pages_max: 5", "pages_max: 6"},
  };
  for (const Row& row : rows) {
    INFO(row.check << " " << row.fails);
    const auto set = [&](const char* limit) {
      const HealthProfileFile file = limits_read(std::string(row.check) + ": {" + limit + "}");
      REQUIRE(printed(file.findings).empty());
      return file.profile;
    };
    CHECK(judged_by(set(row.fails), row.check) == CheckStatus::fail);
    CHECK(judged_by(set(row.passes), row.check) == CheckStatus::pass);
  }
}

TEST_CASE("every limit of every check is read from a file, and written again") {
  for (const CheckSpec* check : every_check()) {
    for (const CheckLimit& limit : check->limits) {
      std::string name(limit.name);
      if (const auto star = name.find('*'); star != name.npos) name.replace(star, 1, "3");
      INFO(check->id << " " << name);
      const double value = limit.lowest + 1;
      const HealthProfileFile file = limits_read(std::string(check->id) + ": {" + name + ": " +
                                                 std::to_string(static_cast<int>(value)) + "}");
      CHECK(printed(file.findings).empty());
      REQUIRE(file.profile.checks.contains(std::string(check->id)));
      CHECK(file.profile.checks.at(std::string(check->id)).limits ==
            std::map<std::string, double>{{name, value}});
      const std::string written = write_health_profile(file.profile);
      CHECK(read_health_profile("written", written, names_of_checks()).profile == file.profile);
    }
  }
}

TEST_CASE("a limit that the check does not have is no mistake where it has a unit, but is told") {
  const HealthProfileFile old = limits_read("gpu.count: {window_s: 3}");
  CHECK_THAT(printed(old.findings), ContainsSubstring("it has no effect"));
  CHECK_FALSE(has_errors(old.findings));
  CHECK(old.profile.checks.at("gpu.count").limits.at("window_s") == 3);
  CHECK_THAT(printed(limits_read("ib.symbol: {drain_per_hr: 3}").findings),
             ContainsSubstring("drain_per_h'"));
  CHECK(has_errors(limits_read("gpu.topo: {gpu_numa: 1}").findings));
  CHECK(has_errors(limits_read("gpu.modes: {compute_mode: 4}").findings));
  CHECK(has_errors(limits_read("gpu.gsp: {enabled: 0.5}").findings));
}

TEST_CASE("a check that is no longer there is no mistake in a profile's file, but is told") {
  for (const char* check :
       {"fab.ber", "fab.events", "host.bmc", "perf.burn", "perf.gemm", "perf.nccl_pair"}) {
    INFO(check);
    const HealthProfileFile file = limits_read(std::string(check) + ": {mode: off}");
    CHECK_FALSE(has_errors(file.findings));
    CHECK_THAT(printed(file.findings), ContainsSubstring("it has no effect"));
  }
  CHECK(has_errors(limits_read("host.bmcs: {mode: off}").findings));
}

TEST_CASE("a pattern sets the limits of all checks that it fits") {
  const HealthProfileFile file =
      limits_read("ib.*: {boot_grace_s: 60, drain_per_h: 3, clear_after_s: 5}");
  CHECK(printed(file.findings).empty());
  CHECK(limit_of(file.profile, *find_check("ib.symbol"), "drain_per_h") == 3);
  CHECK(limit_of(file.profile, *find_check("ib.lid"), "boot_grace_s") == 60);
}

}  // namespace muster
