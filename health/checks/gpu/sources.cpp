#include "health/checks/gpu/sources.h"

#include "health/checks/host/processes.h"
#include "health/model/check_words.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr const char* pci_devices = "/sys/bus/pci/devices";
constexpr std::int64_t vendor_nvidia = 0x10de;
constexpr std::int64_t class_vga = 0x0300;
constexpr std::int64_t class_3d = 0x0302;

constexpr const char* device_files[] = {
    "config",    "current_link_width",  "max_link_width",   "current_link_speed", "max_link_speed",
    "numa_node", "aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"};

bool is_gpu(const SourceFiles& files, const std::string& address) {
  const std::int64_t kind = files.number(pci_file(address, "class")).value_or(0) >> 8;
  return files.number(pci_file(address, "vendor")) == vendor_nvidia &&
         (kind == class_vga || kind == class_3d);
}

}  // namespace

std::string pci_file(const std::string& address, const char* name) {
  return std::string(pci_devices) + "/" + address + "/" + name;
}

std::vector<std::string> gpu_sources() {
  return {"/proc/modules", "/proc/driver/nvidia/version", "/proc/uptime", pci_file("*", "vendor"),
          pci_file("*", "class")};
}

std::vector<std::string> gpu_device_sources(const SourceFiles& scanned) {
  std::vector<std::string> paths;
  for (const std::string& address : gpus_on_pci(scanned)) {
    for (const char* name : device_files) paths.push_back(pci_file(address, name));
  }
  return paths;
}

std::vector<std::string> gpus_on_pci(const SourceFiles& scanned) {
  std::vector<std::string> found = scanned.names_below(pci_devices);
  std::erase_if(found, [&scanned](const std::string& one) { return !is_gpu(scanned, one); });
  return found;
}

std::string kernel_pci_address(std::string_view driver_address) {
  return normal_pci_address(driver_address).value_or(std::string(driver_address));
}

std::vector<std::string> gpu_device_nodes(const HealthProfile& profile) {
  std::vector<std::string> nodes;
  const int gpus = profile.gpu.count.value_or(0);
  if (gpus == 0) return nodes;
  for (int gpu = 0; gpu < gpus; ++gpu) nodes.push_back("open:/dev/nvidia" + std::to_string(gpu));
  nodes.emplace_back("open:/dev/nvidiactl");
  nodes.emplace_back("open:/dev/nvidia-uvm");
  return nodes;
}

namespace {

// Processes of the driver, or the helper of ours, that are stuck in the kernel in all looks.
std::vector<HealthFinding> judge_driver_processes(const CheckInput& input) {
  if (input.profile.gpu.count == 0 || input.looks.empty()) return {};
  std::vector<ProcessStates> looks;
  for (const SourceFiles& look : input.looks) looks.push_back(process_states_of(look));
  if (std::ranges::any_of(looks, &ProcessStates::empty)) {
    return {make_finding(input.check(), "", CheckStatus::unknown, {}, "none",
                         "/proc: no process could be read")};
  }
  std::vector<std::string> stuck;
  for (const auto& [pid, process] : looks.front()) {
    const auto is_stuck = [pid = pid, &name = process.name](const ProcessStates& look) {
      const auto found = look.find(pid);
      return found != look.end() && found->second.state == 'D' && found->second.name == name;
    };
    const bool is_of_driver =
        process.name.starts_with("nvidia") || process.name == input.helper_name;
    if (is_of_driver && std::ranges::all_of(looks, is_stuck))
      stuck.push_back(std::to_string(pid) + " (" + process.name + ")");
  }
  return {make_finding(input.check(), "", stuck.empty() ? CheckStatus::pass : CheckStatus::fail,
                       stuck.empty() ? "none" : joined(stuck), "none")};
}

// Whether who launches ranks can open the driver's device nodes.
std::vector<HealthFinding> judge_device_nodes(const CheckInput& input) {
  const auto nodes = gpu_device_nodes(input.profile);
  if (nodes.empty()) return {};
  HealthFinding finding = make_finding(input.check(), "", CheckStatus::pass, {},
                                       std::to_string(nodes.size()) + " open");
  std::size_t open = 0;
  bool is_refused = false;
  for (const std::string& node : nodes) {
    const FileReading& reading = input.files.reading(node);
    if (reading.ok()) ++open;
    const bool is_denied = reading.is_missing || reading.error.starts_with("Permission denied");
    is_refused = is_refused || (!reading.ok() && is_denied);
    if (!reading.ok()) finding.evidence.push_back(node + ": " + reading.error);
  }
  finding.value = std::to_string(open) + " open";
  if (open == nodes.size()) return {finding};
  finding.status = is_refused ? CheckStatus::fail : CheckStatus::unknown;
  return {finding};
}

}  // namespace

std::span<const CheckSpec> gpu_source_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "gpu.devnodes", .source = "/dev/nvidia*", .says = "the launching user can open them",
     .severity = drain, .fault = setup, .phases = when("P"), .group = gpu,
     .is_asked = is_set<&HealthProfile::gpu, &GpuProfile::count>,
     .judge = judge_device_nodes},
    {.id = "gpu.dstate", .source = "/proc/*/stat", .says = "no nvidia process stuck in the kernel",
     .severity = stop_reboot, .phases = when("T"), .cost = 20'000us,
     .group = processes, .judge = judge_driver_processes},
  };
  // clang-format on
  return all;
}

}  // namespace muster
