#include "health/checks/gpu/gpu_check.h"

#include <algorithm>

#include "health/model/profile.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

constexpr int code_not_supported = 3;
constexpr int gpu_links_max = 72;  // more than any GPU has
constexpr double seconds_min = 1e-3;

std::string key_of(const std::string& device, std::string_view key) {
  return device + "." + std::string(key);
}

// The same board may have another index after a reboot.
std::optional<std::string> device_with_uuid(const GpuReadings& readings, std::string_view uuid) {
  for (const std::string& device : readings.devices())
    if (readings.text(key_of(device, "uuid")) == uuid) return device;
  return std::nullopt;
}

std::string why_missing(const GpuReadings& gpus, const std::string& key) {
  const GpuReading* reading = gpus.find(key);
  if (reading == nullptr) return "it was not queried";
  return reading->rc != 0 ? nvml_code_text(reading->rc) : "it says '" + reading->value + "'";
}

// The table's remedy stays as the next step where it is harder than what the driver wants.
void follow(HealthFinding& finding, const HealthFinding& driver) {
  const CheckSeverity table = finding.severity;
  finding.severity = driver.severity;
  if (table.remedy > driver.severity.remedy)
    finding.severity.on_recurrence = table.remedy;
  else if (table.on_recurrence && *table.on_recurrence > driver.severity.remedy)
    finding.severity.on_recurrence = table.on_recurrence;
  finding.evidence.push_back("the driver wants: " + driver.value);
}

// The driver knows best how its GPU is brought back.
void follow_driver(std::vector<HealthFinding>& findings) {
  std::map<std::string, HealthFinding> drivers;
  for (const HealthFinding& one : findings) {
    if (one.check == "gpu.recovery_action" && one.status == CheckStatus::fail)
      drivers.emplace(one.device, one);
  }
  for (HealthFinding& one : findings) {
    const auto driver = drivers.find(one.device);
    const bool is_judged = one.status == CheckStatus::fail && one.severity.remedy != Remedy::warn &&
                           one.fault_class == FaultClass::node;
    if (driver != drivers.end() && is_judged && one.check != "gpu.recovery_action")
      follow(one, driver->second);
  }
}

bool has_driver(const GpuReadings& readings) {
  constexpr int driver_not_loaded = 9;
  constexpr int library_not_found = 12;
  const GpuReading* init = readings.find("init");
  return init == nullptr || (init->rc != driver_not_loaded && init->rc != library_not_found);
}

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

GpuView view_of_gpu(const GpuSituation& situation, const std::string& device) {
  GpuView view{situation, device, {}, {}, {}};
  const auto uuid = situation.now.text(key_of(view.device, "uuid"));
  if (situation.before != nullptr) {
    const GpuReadings& before = situation.before->readings;
    // A GPU that does not answer is the one that had its place.
    view.device_before = uuid ? device_with_uuid(before, *uuid) : std::optional(view.device);
  }
  const auto recall = [&](std::string_view key) -> std::string {
    if (const auto now = situation.now.text(key_of(view.device, key))) return std::string(*now);
    if (!view.device_before) return {};
    const auto then = situation.before->readings.text(key_of(*view.device_before, key));
    return then ? std::string(*then) : std::string();
  };
  view.pci_address = kernel_pci_address(recall("bdf"));
  view.serial = recall("serial");
  return view;
}

void GpuCheck::note(std::string_view key) {
  const GpuReadings& now = gpu_.situation.now;
  const GpuReading* reading = now.find(key_of(gpu_.device, key));
  if (reading == nullptr) {
    if (now.is_complete()) return;
    reasons_.push_back("no answer: " + (now.stopped().empty()
                                            ? "the driver hangs in " + now.calling()
                                            : now.stopped()));
  } else if (reading->rc == code_not_supported) {
    is_unsupported_ = true;
  } else if (reading->rc != 0) {
    reasons_.push_back(std::string(key) + ": " + nvml_code_text(reading->rc));
  } else {
    reasons_.push_back(std::string(key) + " is no number: " + reading->value);
  }
}

std::optional<std::int64_t> GpuCheck::number(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const auto value = gpu_.situation.now.number(key_of(gpu_.device, key))) return value;
    note(key);
  }
  return std::nullopt;
}

std::optional<std::string> GpuCheck::text(std::string_view key) {
  const auto value = gpu_.situation.now.text(key_of(gpu_.device, key));
  if (value) return std::string(*value);
  note(key);
  return std::nullopt;
}

std::optional<std::int64_t> GpuCheck::growth(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const auto now = gpu_.situation.now.number(key_of(gpu_.device, key));
    if (!now) {
      note(key);
      continue;
    }
    if (!gpu_.device_before) return std::nullopt;
    const auto before = gpu_.situation.before->readings.number(key_of(*gpu_.device_before, key));
    if (!before || *now < *before) return std::nullopt;
    return *now - *before;
  }
  return std::nullopt;
}

std::optional<std::int64_t> GpuCheck::growth_of_links(std::string_view prefix,
                                                      std::string_view suffix) {
  std::optional<std::int64_t> sum;
  for (int link = 0; link < gpu_links_max; ++link) {
    const std::string key = std::string(prefix) + std::to_string(link) + std::string(suffix);
    if (gpu_.situation.now.find(key_of(gpu_.device, key)) == nullptr) break;
    if (const auto grown = growth({key})) sum = sum.value_or(0) + *grown;
  }
  return sum;
}

bool GpuCheck::is_required() const {
  return muster::is_required(input_.profile, input_.check().id);
}

double GpuCheck::seconds() const {
  const GpuBefore* before = gpu_.situation.before;
  return std::max(before == nullptr ? 0 : before->age.count(), seconds_min);
}

HealthFinding GpuCheck::finding(CheckStatus status, std::string value, std::string expected,
                                std::string evidence) const {
  HealthFinding made = make_finding(input_.check(), gpu_.device, status, std::move(value),
                                    std::move(expected), std::move(evidence));
  made.serial = gpu_.serial;
  return made;
}

HealthFinding GpuCheck::passed(std::string value, std::string expected) const {
  return finding(CheckStatus::pass, std::move(value), std::move(expected));
}

HealthFinding GpuCheck::failed(std::string value, std::string expected) const {
  return finding(CheckStatus::fail, std::move(value), std::move(expected));
}

HealthFinding GpuCheck::failed(std::string value, std::string expected,
                               CheckSeverity severity) const {
  HealthFinding made = failed(std::move(value), std::move(expected));
  made.severity = severity;
  return made;
}

HealthFinding GpuCheck::unknown(std::string why) const {
  return finding(CheckStatus::unknown, {}, {}, std::move(why));
}

GpuOutcome GpuCheck::unread() const {
  if (!reasons_.empty()) {
    HealthFinding made = unknown(reasons_.front());
    for (std::size_t i = 1; i < reasons_.size(); ++i)
      if (reasons_[i] != made.evidence.back()) made.evidence.push_back(reasons_[i]);
    return made;
  }
  if (is_unsupported_ && is_required()) return unknown(nvml_code_text(code_not_supported));
  return std::nullopt;
}

bool has_answer(const BaselineNode& node) {
  return node.gpus != nullptr && node.gpus->is_complete() && node.gpus->text("count").has_value();
}

std::vector<std::string> answering_gpus(const BaselineNode& node) {
  return has_answer(node) ? node.gpus->devices() : std::vector<std::string>();
}

std::optional<std::string> same_text(BaselineNode& node, const std::string& key, const char* fact) {
  std::optional<std::string> first;
  for (const std::string& device : answering_gpus(node)) {
    const auto text = node.gpus->text(device + "." + key);
    const bool is_alike = text && (!first || *first == *text);
    if (!is_alike) {
      node.leave_out(fact, text ? device + " says " + std::string(*text) + ", gpu0 says " + *first
                                : device + ": " + why_missing(*node.gpus, device + "." + key));
      return std::nullopt;
    }
    first = *text;
  }
  return first;
}

std::optional<int> same_number(BaselineNode& node, const std::string& key, const char* fact) {
  if (!same_text(node, key, fact)) return std::nullopt;
  const auto number = node.gpus->number("gpu0." + key);
  if (number && *number >= 0 && *number <= 1'000'000) return static_cast<int>(*number);
  node.leave_out(fact, "gpu0: " + why_missing(*node.gpus, "gpu0." + key));
  return std::nullopt;
}

std::optional<bool> same_flag(BaselineNode& node, const std::string& key, const char* fact) {
  const GpuReading* first = has_answer(node) ? node.gpus->find("gpu0." + key) : nullptr;
  if (first != nullptr && first->rc == code_not_supported) return std::nullopt;
  const auto number = same_number(node, key, fact);
  return number ? std::optional(*number != 0) : std::nullopt;
}

std::span<const CheckSpec> gpu_checks() {
  static const std::vector<CheckSpec> all =
      joined_rows({gpu_node_checks(), gpu_link_checks(), gpu_state_checks()});
  return all;
}

std::vector<HealthFinding> judge_gpus(const GpuSituation& situation) {
  const auto expected = situation.profile.gpu.count;
  if (expected ? *expected == 0 : !has_driver(situation.now)) return {};
  GpuLook look{situation, {}};
  for (const std::string& device : situation.now.devices())
    look.gpus.push_back(view_of_gpu(situation, device));
  CheckInput input{situation.files, situation.profile};
  input.gpu = &look;
  std::vector<HealthFinding> findings = judge_group(gpu_checks(), SourceGroup::gpu, input);
  follow_driver(findings);
  return findings;
}

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

}  // namespace muster
