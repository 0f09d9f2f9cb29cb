#include "health/model/profile_usual.h"

#include <algorithm>
#include <array>

namespace muster {

namespace {

// The driver, the firmware or the kernel says itself that the hardware failed: no threshold of ours
// or of a kind of machine is in between, so no profile is needed to believe it.
constexpr std::array<std::string_view, 12> stated_by_hardware{
    "gpu.ecc_dbe",          // counted by the memory controller; every one lost data
    "gpu.fell_off",         // the bus no longer answers
    "gpu.lost",             // the driver refuses the GPU, its registers read as ff
    "gpu.recovery_action",  // the driver asks for it
    "gpu.remap_failure",    // the vendor's criterion for a replacement
    "gpu.sram_unc",         // the driver's own threshold, or an uncorrectable error
    "gpu.sxid",             // the switch's error codes, by the vendor's classes
    "gpu.unrepairable",     // the driver's flag
    "gpu.xid",              // the driver's error codes, by the vendor's actions
    "host.edac",            // an uncorrected memory error; corrected ones only warn
    "host.ro",              // the kernel no longer trusts the disk
    "ib.mlx5_fatal"};       // the adapter's firmware gave up

// Certain as soon as the profile says what the node has.
bool is_stated_by(const HealthProfile& profile, std::string_view check) {
  if (check == "gpu.count") return profile.gpu.count.has_value();
  if (check == "ib.devices" || check == "ib.state") return !profile.ib.ports.empty();
  if (check == "ib.rate") {
    return !profile.ib.ports.empty() && (profile.ib.rate_gbps || profile.ib.width);
  }
  return false;
}

}  // namespace

CheckMode usual_mode(const HealthProfile& profile, std::string_view check) {
  const bool is_certain = std::ranges::find(stated_by_hardware, check) != stated_by_hardware.end();
  return is_certain || is_stated_by(profile, check) ? CheckMode::enforce : CheckMode::observe;
}

}  // namespace muster
