// What is judged from files: PCI, modules, versions, processes.
#include "health/checks/gpu/gpu_check.h"
#include "health/model/check.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/gpu_node.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

std::vector<HealthFinding> findings_of(const SourceFiles& files,
                                       const HealthProfile& profile = h100_profile(),
                                       const GpuReadings& now = healthy_readings()) {
  const SourceFiles healthy = healthy_gpu_files();
  const GpuBefore before{healthy_readings(), healthy, 60s};
  return judge_gpus({now, files, profile, &before, true, nullptr});
}

struct SickFile {
  std::string path;
  std::string text;
  const char* check;
  const char* device;
  const char* severity;
};

}  // namespace

TEST_CASE("addresses of PCI devices as the kernel writes them") {
  CHECK(kernel_pci_address("00000000:3B:00.0") == "0000:3b:00.0");
  CHECK(kernel_pci_address("00010000:3B:00.0") == "10000:3b:00.0");
  CHECK(kernel_pci_address("0000:3b:00.0") == "0000:3b:00.0");
  CHECK(kernel_pci_address("0").substr(0, 1) == "0");
  CHECK(kernel_pci_address("").empty());
}

TEST_CASE("GPUs are told from other devices, and alone are read closely") {
  SourceFiles files = healthy_gpu_files();
  CHECK(gpus_on_pci(files).size() == 8);
  files.add(gpu_pci_file(0, "class"), "0x068000\n");  // a switch of the same vendor
  files.add(gpu_pci_file(1, "vendor"), "0x1002\n");
  CHECK(gpus_on_pci(files).size() == 6);
  for (const std::string& path : gpu_device_sources(files))
    CHECK(path.find("0000:00:00.0") == std::string::npos);
  CHECK(gpu_device_sources(files).size() == 6 * 9);
  CHECK(gpus_on_pci(SourceFiles()).empty());
}

TEST_CASE("what is wrong in files leads to its remedy") {
  const SickFile rows[] = {
      {gpu_pci_file(3, "config"), std::string(64, '\xff'), "gpu.lost", "gpu3", "!reboot>rma"},
      {gpu_pci_file(3, "current_link_width"), "8\n", "gpu.pcie_link", "gpu3", "drain>rma"},
      {gpu_pci_file(3, "aer_dev_fatal"), "DLP 1\nTOTAL_ERR_FATAL 1\n", "gpu.pcie_aer", "gpu3",
       "drain"},
      {gpu_pci_file(3, "aer_dev_nonfatal"), "TOTAL_ERR_NONFATAL 2\n", "gpu.pcie_aer", "gpu3",
       "warn"},
      {gpu_pci_file(3, "aer_dev_correctable"), "TOTAL_ERR_COR 4\n", "gpu.pcie_aer", "gpu3", "warn"},
      {gpu_pci_file(3, "vendor"), "0x0000\n", "gpu.count", "", "reboot>rma"},
      {"/proc/modules", "nouveau 1 0 - Live\n", "gpu.modules", "", "drain"},
      {"/proc/driver/nvidia/version",
       "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 17\n", "gpu.versions",
       "", "reboot"},
  };
  for (const SickFile& row : rows) {
    INFO(row.path);
    SourceFiles files = healthy_gpu_files();
    files.add(row.path, row.text);
    const auto findings = findings_of(files);
    const HealthFinding* found = finding_of(findings, row.check, row.device);
    REQUIRE(found != nullptr);
    CHECK(found->status == CheckStatus::fail);
    CHECK(text_of(found->severity) == row.severity);
  }
}

TEST_CASE("files that cannot be read are unknown") {
  const SickFile rows[] = {
      {gpu_pci_file(3, "aer_dev_fatal"), "", "gpu.pcie_aer", "gpu3", ""},
      {"/proc/modules", "", "gpu.modules", "", ""},
      {"/proc/driver/nvidia/version", "", "gpu.versions", "", ""},
  };
  for (const SickFile& row : rows) {
    INFO(row.path);
    SourceFiles files = healthy_gpu_files();
    files.add(row.path, FileReading{{}, "no answer within 5 s", false});
    const auto findings = findings_of(files);
    const HealthFinding* found = finding_of(findings, row.check, row.device);
    REQUIRE(found != nullptr);
    CHECK(found->status == CheckStatus::unknown);
    CHECK_THAT(found->evidence.front(), ContainsSubstring("no answer within 5 s"));
  }
  SourceFiles garbage = healthy_gpu_files();
  garbage.add("/proc/driver/nvidia/version", std::string("Module \0 x 5. \n", 14));
  garbage.add(gpu_pci_file(3, "aer_dev_fatal"), "TOTAL_ERR_");
  const auto findings = findings_of(garbage);
  CHECK(finding_of(findings, "gpu.versions", "")->status == CheckStatus::fail);
  CHECK(finding_of(findings, "gpu.pcie_aer", "gpu3")->status == CheckStatus::unknown);
}

TEST_CASE("nothing could be scanned: the count is unknown") {
  const auto findings = findings_of(SourceFiles());
  CHECK(finding_of(findings, "gpu.count", "")->status == CheckStatus::unknown);
}

TEST_CASE("links are not judged soon after a boot") {
  SourceFiles files = healthy_gpu_files();
  files.add("/proc/uptime", "120.50 900.00\n");
  const GpuReadings now = healthy_but("gpu3.link.2.state 0");
  const auto findings = findings_of(files, h100_profile(), now);
  CHECK(finding_of(findings, "gpu.nvlink_active", "gpu3")->status == CheckStatus::unknown);
  CHECK(finding_of(findings, "gpu.nvlink_active", "gpu4")->status == CheckStatus::pass);
}

TEST_CASE("what the profile names as limits is judged") {
  HealthProfile profile = h100_profile();
  profile.checks["gpu.clocks"].limits = {{"sm_max_mhz", 1980}, {"sm_app_mhz", 1755}};
  profile.checks["gpu.peermem"].limits = {{"loaded", 1}};
  profile.checks["gpu.gsp"].limits = {{"enabled", 1}};
  profile.checks["gpu.topo"].limits = {{"gpu3_numa_node", 1}, {"gpu4_numa_node", 1}};
  const auto findings = findings_of(healthy_gpu_files(), profile);
  CHECK(finding_of(findings, "gpu.clocks", "gpu0")->status == CheckStatus::fail);
  CHECK(finding_of(findings, "gpu.peermem", "")->status == CheckStatus::fail);
  CHECK(finding_of(findings, "gpu.gsp", "gpu0")->status == CheckStatus::pass);
  CHECK(finding_of(findings, "gpu.topo", "gpu3")->status == CheckStatus::fail);
  CHECK(finding_of(findings, "gpu.topo", "gpu4")->status == CheckStatus::pass);
}

TEST_CASE("a node without GPUs has no findings") {
  const SourceFiles files;
  HealthProfile profile;
  const GpuReadings none = parse_gpu_readings("init.rc 12\ncomplete 1\n");
  CHECK(judge_gpus({none, files, profile, nullptr, true, nullptr}).empty());
  profile.gpu.count = 0;
  CHECK(judge_gpus({healthy_readings(), files, profile, nullptr, true, nullptr}).empty());
  profile.gpu.count = 8;
  const auto missed = judge_gpus({none, files, profile, nullptr, true, nullptr});
  CHECK(finding_of(missed, "gpu.nvml_init", "")->status == CheckStatus::fail);
}

TEST_CASE("ranks run: processes on GPUs are theirs") {
  const auto findings = judged_readings(healthy_but("gpu0.procs 41:1073741824"), nullptr, false);
  CHECK(finding_of(findings, "gpu.procs", "gpu0") == nullptr);
}

TEST_CASE("the environment of ranks") {
  const SourceFiles files = healthy_gpu_files();
  const HealthProfile profile = h100_profile();
  const std::map<std::string, std::string> environment = {
      {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1"}, {"CUDA_INJECTION64_PATH", ""}, {"PATH", "/bin"}};
  const auto findings =
      judge_gpus({healthy_readings(), files, profile, nullptr, false, &environment});
  CHECK(finding_of(findings, "gpu.env", "")->value == "CUDA_ENABLE_COREDUMP_ON_EXCEPTION");
}

namespace {

std::vector<HealthFinding> judge_stuck(std::span<const SourceFiles> looks, const char* helper) {
  const HealthProfile profile;
  const SourceFiles files;
  CheckInput input{files, profile, find_check("gpu.dstate")};
  input.looks = looks;
  input.helper_name = helper;
  return input.check().judge(input);
}

}  // namespace

TEST_CASE("a process of the driver that is stuck in all samples") {
  std::vector<SourceFiles> samples(5);
  for (SourceFiles& sample : samples) {
    sample.add("/proc/41/stat", stat_text(41, "nvidia-smi", 'D', 5));
    sample.add("/proc/42/stat", stat_text(42, "nvidia-smi", 'R', 5));
    sample.add("/proc/43/stat", stat_text(43, "cp", 'D', 5));
    sample.add("/proc/44/stat", stat_text(44, "my (D) x", 'D', 5));
    sample.add("/proc/45/stat", "45 (nvidia");
    sample.add("/proc/46/stat", "46 (nvidia)");
  }
  samples[3].add("/proc/42/stat", stat_text(42, "nvidia-smi", 'D', 5));
  auto findings = judge_stuck(samples, "my (D) x");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].status == CheckStatus::fail);
  CHECK(findings[0].value == "41 (nvidia-smi), 44 (my (D) x)");
  samples[2].add("/proc/41/stat", stat_text(41, "nvidia-smi", 'S', 5));
  CHECK(judge_stuck(samples, "muster-gpus").front().status == CheckStatus::pass);
  CHECK(judge_stuck({}, "x").empty());
  samples[1] = {};
  CHECK(judge_stuck(samples, "muster-gpus").front().status == CheckStatus::unknown);
}
