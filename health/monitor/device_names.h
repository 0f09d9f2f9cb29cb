// What the devices of a node are called, by PCI address, as the last readings had them. One that is
// gone keeps its name until the host starts anew: it is what failed. Plain state, one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "health/checks/kernel/kernel_watch.h"
#include "health/model/gpu_readings.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

class DeviceNames {
 public:
  DeviceNames(std::map<std::string, std::string> gpus, std::map<std::string, std::string> hcas,
              std::set<std::string, std::less<>> skipped);

  // The host started anew: the next readings replace all.
  void boot();
  // Whether anything changed.
  bool take_gpus(const GpuReadings& readings);
  bool take_hcas(const SourceFiles& files, const HealthProfile& profile);

  PciNames pci() const;
  // "gpu3" or "mlx5_3" to its address.
  std::optional<std::string> address_of(std::string_view device) const;
  bool has_gpus() const { return are_gpus_fresh_ && !gpus_.empty(); }
  bool has_hcas() const { return are_hcas_fresh_ && !hcas_.empty(); }
  const std::map<std::string, std::string>& gpus() const { return gpus_; }
  const std::map<std::string, std::string>& hcas() const { return hcas_; }
  const std::set<std::string, std::less<>>& skipped() const { return skipped_; }
  // As much of a tree of files as tells devices by their addresses.
  SourceFiles hca_files() const;

 private:
  std::map<std::string, std::string> gpus_;
  std::map<std::string, std::string> hcas_;
  std::set<std::string, std::less<>> skipped_;  // HCAs that are not judged
  bool are_gpus_fresh_ = true;                  // of this boot
  bool are_hcas_fresh_ = true;
};

}  // namespace muster
