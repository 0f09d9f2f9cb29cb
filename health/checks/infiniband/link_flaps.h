// How often links went down of themselves, as the kernel log told: ib.flap. A link that flaps
// comes back each time, so its state passes whenever somebody looks. Pure; state is plain data.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "health/checks/infiniband/port.h"
#include "health/model/finding.h"
#include "scheduler/text/fields.h"

namespace muster {

// Wall-clock times since 1970, rising.
struct LinkFlapTrack {
  std::string device;  // "mlx5_3"
  std::vector<std::chrono::milliseconds> downs;
  friend bool operator==(const LinkFlapTrack&, const LinkFlapTrack&) = default;

  MUSTER_FIELDS(device, downs)
};

class LinkFlaps {
 public:
  LinkFlaps() = default;
  explicit LinkFlaps(const std::vector<LinkFlapTrack>& state);

  // A link of the adapter at the address went down. No flap within the first minutes after boot
  // (`since_boot`), while drivers and fabric find each other.
  void observe_down(std::string_view pci_address, const SourceFiles& files,
                    const HealthProfile& profile, std::chrono::milliseconds at,
                    std::chrono::seconds since_boot);
  std::vector<HealthFinding> judge(const CheckInput& input) const;
  std::vector<LinkFlapTrack> state() const;

 private:
  HealthFinding judge_port(const CheckInput& input, const InfinibandPort& port,
                           std::chrono::milliseconds now) const;

  std::map<std::string, LinkFlapTrack> tracks_;  // by device
};

}  // namespace muster
