#include "health/verdict/check_rules.h"

#include <algorithm>

namespace muster {

namespace {

constexpr double most_clean_s = 30.0 * 24 * 3600;

Seconds usual_clean_time(const CheckRules& rules, std::string_view check) {
  const CheckSpec* spec = find_check(check);
  const CheckLimit* own = spec ? find_limit(*spec, "clear_after_s") : nullptr;
  if (own && own->usual) return Seconds{static_cast<std::int64_t>(*own->usual)};
  return rules.persistence_of(check) == Persistence::samples ? Seconds{0} : clear_after_event;
}

Seconds clean_time(const CheckRules& rules, std::string_view check, Seconds usual) {
  const double s =
      limit_of(rules.profile, check, "clear_after_s", static_cast<double>(usual.count()));
  if (!(s > 0)) return Seconds{0};
  return Seconds{static_cast<std::int64_t>(std::min(s, most_clean_s))};
}

}  // namespace

Persistence catalogue_persistence(std::string_view check) {
  const CheckSpec* spec = find_check(check);
  return spec ? spec->believe : Persistence::samples;
}

CheckRules rules_of(const HealthProfile& profile) {
  return {profile, catalogue_persistence, std::nullopt};
}

CheckMode mode_of(const CheckRules& rules, std::string_view check, std::string_view device) {
  if (is_excluded(rules.profile, check, device)) return CheckMode::off;
  const auto set = setting_of(rules.profile, check).mode;
  if (set) return *set;
  if (is_required(rules.profile, check)) return CheckMode::enforce;
  return rules.unnamed ? *rules.unnamed : usual_mode(rules.profile, check);
}

int bad_samples_needed(const CheckRules& rules, std::string_view check) {
  const auto set = setting_of(rules.profile, check).samples;
  if (set) return std::max(1, *set);
  return rules.persistence_of(check) == Persistence::samples ? usual_samples : 1;
}

int passes_needed(const CheckRules& rules, std::string_view check) {
  return std::max(usual_samples, bad_samples_needed(rules, check));
}

Seconds clean_time_needed(const CheckRules& rules, std::string_view check) {
  return clean_time(rules, check, usual_clean_time(rules, check));
}

Seconds clean_time_after_remedy(const CheckRules& rules, std::string_view check) {
  return clean_time(rules, check, std::min(usual_clean_time(rules, check), clear_after_remedy));
}

}  // namespace muster
