#include "health/model/profile.h"

#include <algorithm>
#include <array>

#include "scheduler/text/pattern.h"

namespace muster {

namespace {

// They have no other failure than silence.
constexpr std::array<std::string_view, 2> always_required{"host.agent", "host.helper"};

// "mlx5_an0" of "mlx5_an0:1".
std::string_view without_port(std::string_view device) {
  return device.substr(0, device.find(':'));
}

bool is_of_device(std::string_view pattern, std::string_view device) {
  return pattern.empty() || fits_pattern(pattern, device) ||
         fits_pattern(pattern, without_port(device));
}

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

CheckSetting setting_of(const HealthProfile& profile, std::string_view check) {
  const auto exact = profile.checks.find(std::string(check));
  if (exact != profile.checks.end()) return exact->second;
  const CheckSetting* narrowest = nullptr;
  std::size_t letters = 0;
  for (const auto& [pattern, setting] : profile.checks) {
    if (!fits_pattern(pattern, check) || (narrowest && pattern.size() <= letters)) continue;
    narrowest = &setting;
    letters = pattern.size();
  }
  return narrowest ? *narrowest : CheckSetting{};
}

bool is_excluded(const HealthProfile& profile, std::string_view check, std::string_view device) {
  return std::ranges::any_of(profile.exclude, [&](const CheckExclusion& one) {
    return fits_pattern(one.check, check) && is_of_device(one.device, device);
  });
}

bool is_required(const HealthProfile& profile, std::string_view check) {
  if (std::ranges::find(always_required, check) != always_required.end()) return true;
  return std::ranges::any_of(
      profile.required, [&](const std::string& pattern) { return fits_pattern(pattern, check); });
}

double limit_of(const HealthProfile& profile, std::string_view check, std::string_view name,
                double usual) {
  const CheckSetting setting = setting_of(profile, check);
  const auto found = setting.limits.find(std::string(name));
  return found == setting.limits.end() ? usual : found->second;
}

CheckMode usual_mode(const HealthProfile& profile, std::string_view check) {
  const bool is_certain = std::ranges::find(stated_by_hardware, check) != stated_by_hardware.end();
  return is_certain || is_stated_by(profile, check) ? CheckMode::enforce : CheckMode::observe;
}

}  // namespace muster
