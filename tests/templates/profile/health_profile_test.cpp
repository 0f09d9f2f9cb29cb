#include "templates/profile/reader.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include "health/learn/profile.h"
#include "health/model/performance.h"
#include "health/verdict/streaks.h"
#include "runtime/estimate/estimate.h"
#include "scheduler/text/pattern.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

const std::vector<std::string> checks{"gpu.count",         "host.rlimit",     "gpu.recovery_action",
                                      "gpu.nvlink_active", "gpu.nvlink_err4", "gpu.temp",
                                      "gpu.nvlink_err5",   "ib.state",        "ib.rate",
                                      "ib.devices",        "ib.lid",          "ib.link_layer",
                                      "ib.symbol",         "host.mem",        "perf.p2p",
                                      "perf.hbm",          "perf.h2d_d2h",    "perf.dcgm",
                                      "fab.links",         "perf.sdc"};

const std::string example = R"(profile: h100-8x-ndr
match: {gpu_name: "NVIDIA H100 80GB HBM3", gpu_count: 8}
gpu: {count: 8, nvlinks: 18, nvlink_mb_per_s: 26562, pcie_gen: 5, ecc: true, mig: false}
ib: {ports: ["mlx5_[0-7]:1"], rate_gbps: 400, width: 4X}
host: {mem_kb: 1961032704, mem_tolerance_pct: 5, swap_kb: 0, nofile: 65536}
floors: {h2d_gb_per_s: 48, p2p_gb_per_s: 335, allreduce8_gb_per_s: 460, ib_write_bw_gbps: 380}
required: [gpu.count, gpu.recovery_action, gpu.nvlink_active, ib.state]
checks:
  ib.symbol: {mode: enforce, warn_per_s: 10, drain_per_h: 120, window_s: 30}
  gpu.nvlink_err5: {mode: observe, samples: 3}
exclude: [{check: "ib.*", device: mlx5_an0, why: management}]
breaker: {min_nodes: 2, fleet_pct: 5, window_s: 600}
)";

HealthProfileFile read(const std::string& text) {
  return read_health_profile("site.yml", text, checks);
}

std::string complaints(const std::string& text) {
  return printed(read(text).findings);
}

// What is said about one line behind `profile: x`.
std::string about(const std::string& line) {
  return complaints("profile: x\n" + line + "\n");
}

HealthProfile clean(const std::string& text) {
  const HealthProfileFile file = read(text);
  INFO(text << printed(file.findings));
  REQUIRE(file.findings.empty());
  return file.profile;
}

}  // namespace

TEST_CASE("a profile has all that a healthy node of its kind is") {
  const HealthProfile profile = clean(example);
  CHECK(profile.name == "h100-8x-ndr");
  CHECK(profile.match_gpu_name == "NVIDIA H100 80GB HBM3");
  CHECK(profile.match_gpu_count == 8);
  CHECK(profile.gpu.nvlink_mb_per_s == 26562);
  CHECK(profile.gpu.ecc == true);
  CHECK(profile.gpu.mig == false);
  CHECK_FALSE(profile.gpu.pcie_width);
  CHECK(profile.ib.ports == std::vector<std::string>{"mlx5_[0-7]:1"});
  CHECK(profile.ib.width == "4X");
  CHECK(profile.host.mem_kb == 1961032704);
  CHECK(profile.host.swap_kb == 0);
  CHECK(profile.floors.at("ib_write_bw_gbps") == 380);
  CHECK(profile.required.size() == 4);
  CHECK(profile.checks.at("ib.symbol").mode == CheckMode::enforce);
  CHECK(profile.checks.at("ib.symbol").limits.at("drain_per_h") == 120);
  CHECK(profile.checks.at("gpu.nvlink_err5").samples == 3);
  CHECK(is_excluded(profile, "ib.rate", "mlx5_an0:1"));
}

TEST_CASE("what is wrong in a profile is said where it stands") {
  struct Row {
    const char* line;
    const char* complaint;
  };
  const Row rows[] = {
      {"gpus: {count: 8}", "site.yml:2:1: error: unknown key 'gpus'; did you mean 'gpu'?"},
      {"gpu: {cuont: 8}",
       "site.yml:2:7: error: unknown key 'cuont' in 'gpu'; did you mean 'count'?"},
      {"gpu: {count: -1}", "site.yml:2:14: error: gpu.count: expected 0 or more, got -1"},
      {"gpu: {count: 8.5}", "gpu.count: expected an integer, got '8.5'"},
      {"gpu: {count: 4000}", "gpu.count: expected at most 1024"},
      {"gpu: {pcie_gen: 0}", "gpu.pcie_gen: expected 1 or more"},
      {"gpu: {ecc: perhaps}", "gpu.ecc: expected true or false, got 'perhaps'"},
      {"gpu: 8", "gpu: expected a map, got '8'"},
      {"ib: {ports: mlx5_0}", "ib.ports: expected a list"},
      {"ib: {width: 5X}", "ib.width: expected 1X, 2X, 4X, 8X or 12X, got '5X'"},
      {"ib: {rate_gbps: 0}", "ib.rate_gbps: expected 1 or more"},
      {"host: {mem_kb: 0}", "host.mem_kb: expected a whole number from 1 to"},
      {"host: {mem_kb: 1e30}", "host.mem_kb: expected a whole number"},
      {"host: {mem_kb: nan}", "host.mem_kb: expected a number, got 'nan'"},
      {"host: {mem_tolerance_pct: 101}", "expected a number from 0 to 100, got '101'"},
      {"host: {mounts: [home]}", "host.mounts[0]: expected an absolute path, got 'home'"},
      {"host: {free_mb: -1}", "host.free_mb: expected a whole number"},
      {"floors: {p2p: 335}", "unknown key 'p2p' in 'floors'"},
      {"floors: {p2p_gb_per_s: 0}", "floors.p2p_gb_per_s: expected a positive number, got '0'"},
      {"floors: {p2p_gb_per_s: -5}", "floors.p2p_gb_per_s: expected a positive number"},
      {"floors: {p2p_gb_per_s: fast}", "floors.p2p_gb_per_s: expected a number, got 'fast'"},
      {"floors: {dcgm_failed_tests: 1}", "unknown key 'dcgm_failed_tests' in 'floors'"},
      {"checks: {perf.dcgm: {level: 5}}", "checks.perf.dcgm.level: expected at most 4, got 5"},
      {"checks: {perf.dcgm: {level: 0}}", "checks.perf.dcgm.level: expected 1 or more"},
      {"checks: {perf.dcgm: {level: 1.5}}", "checks.perf.dcgm.level: expected an integer"},
      {"checks: {perf.sdc: {time_min: 121}}",
       "checks.perf.sdc.time_min: expected at most 120, got 121"},
      {"checks: {perf.sdc: {time_min: 0}}", "checks.perf.sdc.time_min: expected 1 or more"},
      {"checks: {perf.sdc: {time_min: 0.5}}", "checks.perf.sdc.time_min: expected an integer"},
      {"checks: {perf.sdc: {minutes: 20}}", "unknown key 'minutes'"},
      {"required: [gpu.cuont]",
       "site.yml:2:12: error: required[0]: there is no check 'gpu.cuont'; did you mean "
       "'gpu.count'?"},
      {"required: [\"gpu.*\"]", "there is no check 'gpu.*'"},
      {"checks: {ib.symbols: {mode: off}}",
       "site.yml:2:10: error: checks.ib.symbols: there is no check 'ib.symbols'; did you mean "
       "'ib.symbol'?"},
      {"checks: {\"xy.*\": {mode: off}}", "there is no check 'xy.*'"},
      {"checks: {ib.symbol: {mode: enfroce}}", "expected off, observe or enforce, got 'enfroce'"},
      {"checks: {ib.symbol: {samples: 0}}", "checks.ib.symbol.samples: expected 1 or more"},
      {"checks: {ib.symbol: {drain: 120}}", "unknown key 'drain' in 'checks.ib.symbol'"},
      {"checks: {ib.symbol: {sampels: 3}}", "did you mean 'samples'?"},
      {"checks: {ib.symbol: {drain_per_h: -1}}", "expected a number from 0 to 1e15"},
      {"checks: {ib.symbol: {drain_per_h: .inf}}", "drain_per_h: expected a number"},
      {"exclude: [{device: mlx5_0}]", "'exclude[0].check' is required"},
      {"exclude: [{check: ib.nothing}]", "there is no check 'ib.nothing'"},
      {"breaker: {fleet_pct: 200}", "breaker.fleet_pct: expected a number from 0 to 100"},
      {"breaker: {min_nodes: 0}", "breaker.min_nodes: expected 1 or more"},
      {"rules: [{name: a, metric: perf.p2p, op: majority}]", "unknown key 'rules'"},
  };
  for (const Row& row : rows) {
    INFO(row.line);
    CHECK_THAT(about(row.line), ContainsSubstring(row.complaint));
  }
}

TEST_CASE("a profile that names former benchmarks stays readable, but none of them is required") {
  const auto file = read(
      "profile: x\n"
      "floors: {gemm_gflops: 700000, two_node_allreduce_gb_per_s: 250, p2p_gb_per_s: 335}\n"
      "checks: {perf.nccl_pair: {mode: off}}\n"
      "exclude: [{check: perf.gemm}]\n");
  CHECK(file.profile.floors == std::map<std::string, double>{{"p2p_gb_per_s", 335}});
  CHECK(file.findings.size() == 4);
  for (const Finding& finding : file.findings) CHECK(finding.severity == Severity::warning);
  CHECK_THAT(printed(file.findings),
             ContainsSubstring("site.yml:2:60: warning: floors.two_node_allreduce_gb_per_s: no "
                               "benchmark measures it; it has no effect"));
  CHECK_THAT(about("required: [perf.nccl_pair]"),
             ContainsSubstring("error: required[0]: there is"));
}

TEST_CASE("a text that is no profile is a finding") {
  CHECK_THAT(complaints(""), ContainsSubstring("the file is empty"));
  CHECK_THAT(complaints("- a\n"), ContainsSubstring("expected a map, got a list"));
  CHECK_THAT(complaints("gpu: {count: 8}\n"), ContainsSubstring("'profile' is required"));
  CHECK_THAT(complaints("profile: a/b\n"), ContainsSubstring("profile: expected at most 64"));
  CHECK_THAT(complaints("profile: x\ngpu: {count: 8\n"), ContainsSubstring("is never closed"));
  CHECK_THAT(complaints("profile: x\nprofile: y\n"), ContainsSubstring("duplicate key"));
  CHECK_THAT(complaints("a: b\n---\nc: d\n"), ContainsSubstring("second YAML document"));
  CHECK_THAT(complaints(std::string("profile: x\0", 11)), ContainsSubstring("NUL byte"));
  CHECK_THAT(complaints("profile: \xff\n"), ContainsSubstring("not UTF-8"));
  CHECK_THAT(complaints(std::string(2 << 20, 'x')), ContainsSubstring("larger than 1 MiB"));
  CHECK_THAT(complaints("profile: " + std::string(5000, '[')), ContainsSubstring("error"));
}

TEST_CASE("without a list of checks any check may be named") {
  const auto file = read_health_profile("a.yml", "profile: x\nrequired: [any.thing]\n", {});
  CHECK(file.findings.empty());
}

TEST_CASE("a site's file goes over a profile key by key, lists as a whole") {
  const std::string site = R"(profile: h100-8x-ndr
gpu: {nvlinks: 12, persistence: true, pcie_gen: }
ib: {ports: [mlx5_0:1]}
host: {swap_kb: 8}
floors: {p2p_gb_per_s: 300}
required: [gpu.count]
checks:
  ib.symbol: {drain_per_h: 60}
)";
  const HealthProfileFile file = read_health_profile_over(example, "site.yml", site, checks);
  INFO(printed(file.findings));
  REQUIRE(file.findings.empty());
  const HealthProfile& profile = file.profile;
  CHECK(profile.gpu.count == 8);
  CHECK(profile.gpu.nvlinks == 12);
  CHECK(profile.gpu.persistence == true);
  CHECK_FALSE(profile.gpu.pcie_gen);  // taken out
  CHECK(profile.ib.ports == std::vector<std::string>{"mlx5_0:1"});
  CHECK(profile.ib.rate_gbps == 400);
  CHECK(profile.host.swap_kb == 8);
  CHECK(profile.host.nofile == 65536);
  CHECK(profile.floors.at("p2p_gb_per_s") == 300);
  CHECK(profile.floors.at("h2d_gb_per_s") == 48);
  CHECK(profile.required == std::vector<std::string>{"gpu.count"});
  CHECK(profile.checks.at("ib.symbol").mode == CheckMode::enforce);
  CHECK(profile.checks.at("ib.symbol").limits.at("drain_per_h") == 60);
  CHECK(profile.checks.at("gpu.nvlink_err5").samples == 3);
}

TEST_CASE("what is wrong in a site's file is said of that file") {
  const auto said = [](const std::string& site) {
    return printed(read_health_profile_over(example, "site.yml", site, checks).findings);
  };
  CHECK_THAT(said("profile: h100-8x-ndr\ngpu: {nvlinks: many}\n"),
             ContainsSubstring("site.yml:2:16: error: gpu.nvlinks: expected an integer"));
  CHECK_THAT(said("profile: h100-8x-ndr\nfans: 5\n"),
             ContainsSubstring("site.yml:2:1: error: unknown key 'fans'"));
  CHECK_THAT(said("profile: h100-8x-ndr\ngpu: 7\n"), ContainsSubstring("site.yml:2:6: error: gpu"));
  CHECK_THAT(said("[]"), ContainsSubstring("expected a map"));
  CHECK_THAT(said(""), ContainsSubstring("the file is empty"));
}

TEST_CASE("a site's file of the name of a shipped profile goes over it, another stands alone") {
  const HealthProfile over =
      read_site_profile("a.yml", "profile: ND96isr_H100_v5\ngpu: {nvlinks: 17}\n", checks).profile;
  CHECK(over.gpu.nvlinks == 17);
  CHECK(over.ib.rate_gbps == 400);
  const HealthProfile alone =
      read_site_profile("a.yml", "profile: mine\ngpu: {nvlinks: 17}\n", checks).profile;
  CHECK(alone.gpu.nvlinks == 17);
  CHECK_FALSE(alone.ib.rate_gbps);
}

TEST_CASE("a profile that is written reads back as the same") {
  HealthProfile profile = clean(example);
  CHECK(clean(write_health_profile(profile)) == profile);
  profile.host.mounts = {"/home", "/a b: c", "/\xc3\xa4#x"};
  profile.host.disks = {};
  profile.host.free_pct = 0.1;
  profile.host.turbo = false;
  profile.host.governor = "performance";
  profile.host.transparent_hugepages = "never";
  profile.host.services = {"sshd"};
  profile.floors["stream_mb_per_s"] = 0.1 + 0.2;
  profile.floors["hbm_mb_per_s"] = 1e12;
  profile.checks["ib.*"].mode = CheckMode::off;
  profile.checks["ib.rate"] = {};
  profile.exclude.push_back({"gpu.temp", "", "no: sensor # here"});
  profile.breaker.window_s = 60;
  profile.match_gpu_name = "*: [a-b] \"x\" \\ 'y'";
  CHECK(clean(write_health_profile(profile)) == profile);
  HealthProfile bare;
  bare.name = "12";
  CHECK(clean(write_health_profile(bare)) == bare);
}

TEST_CASE("every shipped profile reads without a complaint and is written as it reads") {
  CHECK(shipped_profiles().size() >= 26);
  std::size_t files = 0;
  const std::string directory = std::string(MUSTER_SOURCE_DIR) + "/configs/health";
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const ShippedProfile* shipped = find_shipped_profile(entry.path().stem().string());
    INFO(entry.path());
    REQUIRE(shipped != nullptr);
    CHECK(shipped->text == content_of(entry.path()));
    ++files;
  }
  CHECK(files == shipped_profiles().size());
  for (const ShippedProfile& shipped : shipped_profiles()) {
    INFO(shipped.name);
    const HealthProfile profile = clean(std::string(shipped.text));
    CHECK(profile.name == shipped.name);
    CHECK(clean(write_health_profile(profile)) == profile);
  }
}

TEST_CASE("a shipped profile agrees with the catalogue of sizes") {
  for (const ShippedProfile& shipped : shipped_profiles()) {
    INFO(shipped.name);
    const HealthProfile profile = clean(std::string(shipped.text));
    const auto sku = find_sku(shipped.name);
    if (!sku) {  // no size that can be rented
      CHECK((shipped.name.starts_with("hgx-") || shipped.name.starts_with("dgx-")));
      CHECK(profile.match_gpu_count == 8);
      CHECK(is_for_all_makers(shipped) == shipped.name.starts_with("hgx-"));
      continue;
    }
    if (profile.gpu.count) CHECK(profile.gpu.count == static_cast<int>(sku->gpus));
    if (profile.match_gpu_count) {
      CHECK(profile.match_gpu_count == profile.gpu.count);
      CHECK_FALSE(is_for_all_makers(shipped));
    }
    CHECK(profile.ib.ports.empty() == (sku->infiniband_nics == 0));
    if (sku->infiniband_nics > 0) {
      REQUIRE(profile.ib.ports.size() == 1);
      CHECK(names_of_pattern(profile.ib.ports[0])->size() ==
            static_cast<std::size_t>(sku->infiniband_nics));
      CHECK(profile.ib.rate_gbps == static_cast<int>(sku->infiniband_gbit_s));
    }
    // Vendors write GB for GiB; and the kernel keeps some.
    if (profile.host.mem_kb) {
      CHECK(static_cast<double>(*profile.host.mem_kb) / (1 << 20) ==
            Approx(sku->memory_gib).epsilon(0.08));
    }
    const auto inside = profile.floors.find("allreduce8_gb_per_s");
    if (inside != profile.floors.end()) CHECK(inside->second == sku->gpu_link_gbyte_s);
  }
}

namespace {

std::vector<std::string> some_ports(const std::string& device, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(device + std::to_string(i) + ":1");
  return names;
}

std::string chosen(const NodeKind& node) {
  const auto result = choose_shipped_profile(node);
  return result ? std::string((*result)->name) : result.error().message;
}

constexpr const char* h100 = "NVIDIA H100 80GB HBM3";
constexpr const char* of_azure = "Microsoft Corporation";

}  // namespace

TEST_CASE("a shipped profile is chosen by SKU, else by GPUs and what tells the maker") {
  CHECK(chosen({.sku = "standard_nd96ISR_h100_v5"}) == "ND96isr_H100_v5");
  CHECK(chosen({.sku = "HB120rs_v3"}) == "HB120rs_v3");
  CHECK(chosen({"ND96isr_H100_v5", "Tesla T4", 1, {}, "", ""}) == "ND96isr_H100_v5");
  CHECK(chosen({"", h100, 8, some_ports("mlx5_ib", 8), of_azure, "Virtual Machine"}) ==
        "ND96isr_H100_v5");
  CHECK(chosen({"", h100, 8, some_ports("mlx5_ib", 8), "", ""}) == "ND96isr_H100_v5");
  CHECK(chosen({"", h100, 8, some_ports("mlx5_ib", 7), "", ""}) == "ND96isr_H100_v5");
  CHECK(chosen({"", h100, 8, some_ports("mlx5_ib", 0), of_azure, ""}) == "ND96is_H100_v5");
  CHECK_THAT(chosen({"", h100, 8, {}, of_azure, ""}),
             ContainsSubstring("name one of ND96is_H100_v5, ND96isr_H100_v5"));
  CHECK_THAT(chosen({"", "NVIDIA H200", 8, some_ports("mlx5_ib", 8), of_azure, ""}),
             ContainsSubstring("name one of ND96isr_H200_v5, ND96isrf_H200_v5"));
  CHECK(chosen({"", "NVIDIA A100-SXM4-80GB", 8, {}, of_azure, ""}) == "ND96amsr_A100_v4");
  CHECK(chosen({"", "NVIDIA A100-SXM4-40GB", 8, {}, of_azure, ""}) == "ND96asr_v4");
  CHECK(chosen({"", "NVIDIA A100 80GB PCIe", 4, {}, of_azure, ""}) == "NC96ads_A100_v4");
  CHECK(chosen({"", "NVIDIA GB200", 4, {}, of_azure, ""}) == "ND128isr_NDR_GB200_v6");
  CHECK(chosen({"", "Tesla V100-SXM2-32GB", 8, {}, of_azure, ""}) == "ND40rs_v2");
  CHECK(chosen({"", "Tesla T4", 4, {}, of_azure, ""}) == "NC64as_T4_v3");
  CHECK(chosen({"", "Tesla T4", 3, {}, of_azure, ""}) ==
        "no health profile is shipped for 3 x 'Tesla T4'");
  CHECK(chosen({"unknown", "Tesla T4", 1, {}, of_azure, ""}) == "NC4as_T4_v3");
  CHECK_THAT(chosen({.sku = "HB120rs_v4"}), ContainsSubstring("did you mean 'HB120rs_v"));
  CHECK_THAT(chosen({}), ContainsSubstring("no health profile matches this host"));
}

TEST_CASE("a node of another maker is no rented size, whatever its GPUs") {
  const auto plain = some_ports("mlx5_", 8);
  CHECK(chosen({"", h100, 8, plain, "", ""}) == "hgx-h100");
  CHECK(chosen({"", h100, 8, plain, "Supermicro", "SYS-821GE-TNHR"}) == "hgx-h100");
  CHECK(chosen({"", h100, 8, some_ports("mlx5_ib", 8), "Dell Inc.", "PowerEdge XE9680"}) ==
        "hgx-h100");
  CHECK(chosen({"", h100, 8, some_ports("mlx5_", 12), "HPE", "Cray XD670"}) == "hgx-h100");
  CHECK(chosen({"", h100, 8, some_ports("mlx5_", 0), "", ""}) == "hgx-h100");
  CHECK(chosen({"", h100, 8, {}, "", ""}) == "hgx-h100");
  CHECK(chosen({"", "NVIDIA A100-SXM4-40GB", 8, plain, "", ""}) == "hgx-a100");
  CHECK(chosen({"", "NVIDIA A100-SXM4-80GB", 8, plain, "GIGABYTE", "G492"}) == "hgx-a100");
  CHECK(chosen({"", "NVIDIA H200", 8, plain, "", ""}) == "hgx-h200");
  CHECK(chosen({"", "NVIDIA B200", 8, plain, "", ""}) == "hgx-b200");
  CHECK(chosen({"", h100, 8, plain, "NVIDIA", "DGXH100"}) == "dgx-h100");
  CHECK(chosen({"", h100, 8, plain, "NVIDIA", "P4242"}) == "hgx-h100");
  CHECK(chosen({"", "NVIDIA A100-SXM4-80GB", 8, plain, "NVIDIA", "DGXA100 920-23687-2530-000"}) ==
        "dgx-a100");
  CHECK(chosen({"", "NVIDIA H200", 8, plain, "NVIDIA", "DGXH200"}) == "dgx-h200");
  CHECK(chosen({"", "NVIDIA B200", 8, plain, "NVIDIA", "DGXB200"}) == "dgx-b200");
  CHECK_THAT(chosen({"", "Tesla T4", 1, plain, "Dell Inc.", ""}),
             ContainsSubstring("no health profile is shipped"));
  CHECK_THAT(chosen({"", "NVIDIA A100 80GB PCIe", 4, {}, "", ""}),
             ContainsSubstring("no health profile is shipped"));
}

TEST_CASE("what a profile for all makers does not know drains nobody") {
  for (const char* name : {"hgx-a100", "hgx-h100", "hgx-h200", "hgx-b200", "dgx-h100"}) {
    INFO(name);
    const HealthProfile profile = clean(std::string(find_shipped_profile(name)->text));
    CHECK_FALSE(profile.ib.rate_gbps);
    const CheckRules rules = rules_of(profile);
    for (const char* check : {"ib.devices", "ib.state", "ib.phys", "ib.rate", "host.mem"}) {
      CHECK(mode_of(rules, check, "mlx5_0:1") != CheckMode::enforce);
    }
    CHECK(mode_of(rules, "gpu.count", "") == CheckMode::enforce);
  }
}

TEST_CASE("a profile by its former name is found") {
  CHECK(find_shipped_profile("b200-8x")->name == "hgx-b200");
  CHECK(find_shipped_profile("B300-8x")->name == "hgx-b300");
}

TEST_CASE("the profile of an earlier look stays while only a part that is gone speaks against it") {
  const auto still = [](const std::string& before, const NodeKind& node) {
    return still_fitting_profile(before, node) != nullptr;
  };
  CHECK(still("ND96isr_H100_v5", {"", h100, 7, some_ports("mlx5_ib", 8), "", ""}));
  CHECK(still("ND96isr_H100_v5", {"", h100, 8, some_ports("mlx5_ib", 0), of_azure, ""}));
  CHECK(still("ND96isr_H100_v5", {}));
  CHECK_FALSE(still("ND96isr_H100_v5", {"", h100, 8, some_ports("mlx5_", 8), "", ""}));
  CHECK_FALSE(still("ND96isr_H100_v5", {"", h100, 8, {}, "Supermicro", ""}));
  CHECK_FALSE(still("ND96isr_H100_v5", {"", "NVIDIA H200", 8, {}, "", ""}));
  CHECK_FALSE(still("ND96isr_H100_v5", {.sku = "ND96is_H100_v5"}));
  CHECK_FALSE(still("", {"", h100, 8, {}, "", ""}));
  CHECK_FALSE(still("no such", {"", h100, 8, {}, "", ""}));
}

TEST_CASE("what was learned from a node is a profile that reads back") {
  HealthProfile profile = learn_profile({}, "learned").profile;
  std::map<std::string, double> measured;
  for (const PerformanceMetric& metric : performance_metrics())
    measured[std::string(metric.name)] = 123.456;
  learn_floors(measured, profile);
  CHECK_FALSE(profile.floors.empty());
  CHECK(clean(write_health_profile(profile)) == profile);
}

TEST_CASE("the time of a full load and the level of a check are read, and written again") {
  const HealthProfile profile = clean(
      "profile: a\nchecks: {perf.sdc: {time_min: 30}, perf.dcgm: {mode: observe, level: 3}}\n");
  CHECK(profile.checks.at("perf.sdc").limits.at("time_min") == 30);
  CHECK(profile.checks.at("perf.dcgm").limits.at("level") == 3);
  CHECK(clean(write_health_profile(profile)) == profile);
}

TEST_CASE("no text makes the reader of profiles fail") {
  std::mt19937 random(20260301);
  const std::string letters = "{}[]:,-#'\"\\ \n\t&*!|>%@abcgpuib0189._\x80\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string text = example;
    for (int change = static_cast<int>(random() % 6); change >= 0; --change) {
      const std::size_t at = random() % text.size();
      const std::size_t length = random() % 8;
      std::string with;
      for (std::size_t i = random() % 4; i > 0; --i) with += letters[random() % letters.size()];
      text.replace(at, length, with);
    }
    const HealthProfileFile file = read(text);
    // What reads without a complaint is a profile, and so can be written.
    if (file.findings.empty()) {
      INFO(text << write_health_profile(file.profile));
      REQUIRE(clean(write_health_profile(file.profile)) == file.profile);
    }
    read_health_profile_over(example, "site.yml", text, checks);
  }
}

}  // namespace muster
