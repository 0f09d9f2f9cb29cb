#include "health/model/profile.h"

#include <algorithm>

#include "health/model/check.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

// "mlx5_an0" of "mlx5_an0:1".
std::string_view without_port(std::string_view device) {
  return device.substr(0, device.find(':'));
}

bool is_of_device(std::string_view pattern, std::string_view device) {
  return pattern.empty() || fits_pattern(pattern, device) ||
         fits_pattern(pattern, without_port(device));
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

bool is_off(const HealthProfile& profile, std::string_view check, std::string_view device) {
  return setting_of(profile, check).mode == CheckMode::off || is_excluded(profile, check, device);
}

bool is_required(const HealthProfile& profile, std::string_view check) {
  const CheckSpec* spec = find_check(check);
  if (spec != nullptr && spec->is_always_required) return true;
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
  const CheckSpec* spec = find_check(check);
  const bool is_certain = spec != nullptr && spec->is_certain && spec->is_certain(profile);
  return is_certain ? CheckMode::enforce : CheckMode::observe;
}

}  // namespace muster
