#include "health/model/profile.h"

#include <algorithm>

#include "health/name_pattern.h"
#include "health/profile_rules.h"

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

bool is_severity_text(std::string_view text) {
  return severity_in(text).has_value();
}

double limit_of(const HealthProfile& profile, std::string_view check, std::string_view name,
                double usual) {
  const CheckSetting setting = setting_of(profile, check);
  const auto found = setting.limits.find(std::string(name));
  return found == setting.limits.end() ? usual : found->second;
}

}  // namespace muster
