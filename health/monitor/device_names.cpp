#include "health/monitor/device_names.h"

#include <algorithm>
#include <vector>

#include "health/checks/infiniband/port.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

// More functions than any node has.
constexpr std::size_t named_devices_max = 1024;

// Without names of ports in the profile those of the fabric are.
std::set<std::string> judged_devices(const SourceFiles& files, const HealthProfile& profile,
                                     const std::vector<InfinibandPort>& ports) {
  std::set<std::string> devices;
  if (!profile.ib.ports.empty()) {
    for (const InfinibandPort& port : judged_ports(files, profile)) devices.insert(port.device);
    return devices;
  }
  for (const InfinibandPort& port : ports) {
    const bool is_of_fabric =
        !is_virtual_function(files, port.device) && !is_management_device(files, port.device);
    if (is_of_fabric) devices.insert(port.device);
  }
  return devices;
}

}  // namespace

DeviceNames::DeviceNames(std::map<std::string, std::string> gpus,
                         std::map<std::string, std::string> hcas,
                         std::set<std::string, std::less<>> skipped)
    : gpus_(std::move(gpus)), hcas_(std::move(hcas)), skipped_(std::move(skipped)) {}

void DeviceNames::boot() {
  are_gpus_fresh_ = false;
  are_hcas_fresh_ = false;
}

// While the host is up a GPU that is gone would shift the names of those behind it.
bool DeviceNames::take_gpus(const GpuReadings& readings) {
  std::map<std::string, std::string> found;
  for (const std::string& device : readings.devices()) {
    const auto address = readings.text(device + ".bdf");
    const auto normal = address ? normal_pci_address(*address) : std::nullopt;
    if (normal) found[*normal] = device;
  }
  if (found.empty() || (are_gpus_fresh_ && found.size() < gpus_.size())) return false;
  are_gpus_fresh_ = true;
  const bool is_new = found != gpus_;
  gpus_ = std::move(found);
  return is_new;
}

bool DeviceNames::take_hcas(const SourceFiles& files, const HealthProfile& profile) {
  const auto before = hcas_;
  const auto skipped_before = skipped_;
  const auto ports = find_ports(files);
  if (!ports.empty() && !are_hcas_fresh_) {
    hcas_.clear();
    skipped_.clear();
    are_hcas_fresh_ = true;
  }
  const auto judged = judged_devices(files, profile, ports);
  for (const InfinibandPort& port : ports) {
    const auto address = pci_address(files, port.device);
    if (!address || hcas_.size() >= named_devices_max) continue;
    hcas_[*address] = port.device;
    if (judged.contains(port.device)) {
      skipped_.erase(*address);
    } else {
      skipped_.insert(*address);
    }
  }
  return hcas_ != before || skipped_ != skipped_before;
}

PciNames DeviceNames::pci() const {
  PciNames names;
  names.names.insert(gpus_.begin(), gpus_.end());
  names.names.insert(hcas_.begin(), hcas_.end());
  names.skipped = skipped_;
  return names;
}

std::optional<std::string> DeviceNames::address_of(std::string_view device) const {
  for (const auto* names : {&gpus_, &hcas_}) {
    const auto found = std::ranges::find(
        *names, device, [](const auto& one) -> std::string_view { return one.second; });
    if (found != names->end()) return found->first;
  }
  return std::nullopt;
}

SourceFiles DeviceNames::hca_files() const {
  SourceFiles files;
  for (const auto& [address, device] : hcas_) {
    files.add(infiniband_device_path(device, "device/uevent"), "PCI_SLOT_NAME=" + address + "\n");
    files.add(infiniband_device_path(device, "ports/1/state"), std::string());
  }
  return files;
}

}  // namespace muster
