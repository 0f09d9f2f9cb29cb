// A healthy node of eight H100 as readings, files and profile, and what changes it.
#pragma once

#include <algorithm>
#include <optional>

#include "health/checks/gpu/gpu_check.h"
#include "tests/health/nvml_fixture.h"

namespace muster {

inline const GpuReadings& healthy_readings() {
  static const GpuReadings readings = FakeNvml(health_data("nvml-h100-8.txt")).read();
  return readings;
}

// With lines of the text form that change it.
inline GpuReadings healthy_but(const std::string& lines) {
  return parse_gpu_readings(write_gpu_readings(healthy_readings()) + lines + "\n");
}

inline std::string gpu_pci_file(int gpu, const char* name) {
  const auto address = healthy_readings().text("gpu" + std::to_string(gpu) + ".bdf");
  return pci_file(kernel_pci_address(address.value_or("")), name);
}

inline HealthProfile h100_profile() {
  HealthProfile profile;
  profile.name = "h100-8x-ndr";
  profile.gpu = {8, 18, 26562, 5, 16, true, false, true};
  return profile;
}

inline SourceFiles healthy_gpu_files() {
  SourceFiles files;
  for (int gpu = 0; gpu < 8; ++gpu) {
    const auto add = [&](const char* name, const std::string& text) {
      files.add(gpu_pci_file(gpu, name), text);
    };
    add("vendor", "0x10de\n");
    add("class", "0x030200\n");
    add("config", std::string("\xde\x10\x30\x23\0\0\0\0", 8));
    add("current_link_width", "16\n");
    add("numa_node", gpu < 4 ? "0\n" : "1\n");
    add("aer_dev_correctable", "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3\n");
    add("aer_dev_nonfatal", "Undefined 0\nTOTAL_ERR_NONFATAL 0\n");
    add("aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0\n");
  }
  for (const std::string& node : gpu_device_nodes(h100_profile())) files.add(node, std::string());
  files.add("/sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n");
  files.add("/sys/bus/pci/devices/0000:00:00.0/class", "0x060000\n");
  files.add("/proc/uptime", "86400.12 100000.00\n");
  files.add("/proc/modules", "nvidia_uvm 1 0 - Live 0x0\nnvidia 2 1 nvidia_uvm, Live 0x0\n");
  files.add("/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build\n"
            "GCC version:  gcc version 12.2.0\n");
  return files;
}

// Of readings, a minute after `then`, beside files that are healthy.
inline std::vector<HealthFinding> judged_readings(const GpuReadings& now,
                                                  const GpuReadings* then = nullptr,
                                                  bool is_idle = true,
                                                  const HealthProfile& profile = h100_profile()) {
  static const SourceFiles files = healthy_gpu_files();
  std::optional<GpuBefore> before;
  if (then) before.emplace(GpuBefore{*then, files, std::chrono::minutes(1)});
  return judge_gpus({now, files, profile, before ? &*before : nullptr, is_idle, nullptr});
}

inline const HealthFinding* finding_of(const std::vector<HealthFinding>& findings,
                                       std::string_view check, std::string_view device) {
  const auto found = std::ranges::find_if(findings, [&](const HealthFinding& one) {
    return one.check == check && one.device == device;
  });
  return found == findings.end() ? nullptr : &*found;
}

}  // namespace muster
