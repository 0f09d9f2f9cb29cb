#include "templates/shipped_profiles.h"

#include <algorithm>

#include "health/name_pattern.h"
#include "templates/spelling.h"
#include "templates/value.h"

namespace muster {
namespace {

constexpr std::string_view vendor_prefix = "standard_";

std::string plain_name(std::string_view name) {
  std::string plain = folded(name);
  if (plain.starts_with(vendor_prefix)) plain.erase(0, vendor_prefix.size());
  return plain;
}

std::vector<std::string> shipped_names() {
  std::vector<std::string> names;
  for (const ShippedProfile& each : shipped_profiles()) names.emplace_back(each.name);
  return names;
}

HealthProfile profile_of(const ShippedProfile& shipped) {
  return read_health_profile(std::string(shipped.name), shipped.text, {}).profile;
}

bool has_these_gpus(const HealthProfile& profile, const NodeKind& node) {
  return !profile.match_gpu_name.empty() && fits_pattern(profile.match_gpu_name, node.gpu_name) &&
         (!profile.match_gpu_count || *profile.match_gpu_count == node.gpu_count);
}

bool has_as_many_ports(const HealthProfile& profile, int ports) {
  int wanted = 0;
  for (const std::string& pattern : profile.ib.ports) {
    const auto names = names_of_pattern(pattern);
    if (!names) return true;  // any number of them
    wanted += static_cast<int>(names->size());
  }
  return wanted == ports;
}

std::string names_of(const std::vector<const ShippedProfile*>& profiles) {
  std::string names;
  for (const ShippedProfile* each : profiles) {
    names += (names.empty() ? "" : ", ") + std::string(each->name);
  }
  return names;
}

Result<const ShippedProfile*> only_one(const std::vector<const ShippedProfile*>& fitting,
                                       const NodeKind& node) {
  const std::string kind = std::to_string(node.gpu_count) + " x " + quoted(node.gpu_name);
  if (fitting.empty()) return Error{"no health profile is shipped for " + kind};
  if (fitting.size() == 1) return fitting.front();
  return Error{"several health profiles fit " + kind + "; name one of " + names_of(fitting)};
}

Result<const ShippedProfile*> choose_by_gpus(const NodeKind& node) {
  std::vector<const ShippedProfile*> fitting;
  for (const ShippedProfile& each : shipped_profiles()) {
    const HealthProfile profile = profile_of(each);
    const bool fits =
        has_these_gpus(profile, node) &&
        (!node.infiniband_ports || has_as_many_ports(profile, *node.infiniband_ports));
    if (fits) fitting.push_back(&each);
  }
  return only_one(fitting, node);
}

}  // namespace

const ShippedProfile* find_shipped_profile(std::string_view name) {
  const std::string wanted = plain_name(name);
  const auto found = std::ranges::find_if(shipped_profiles(), [&](const ShippedProfile& each) {
    return plain_name(each.name) == wanted;
  });
  return found == shipped_profiles().end() ? nullptr : &*found;
}

Result<const ShippedProfile*> choose_shipped_profile(const NodeKind& node) {
  if (const ShippedProfile* found = find_shipped_profile(node.sku)) return found;
  if (!node.gpu_name.empty()) return choose_by_gpus(node);
  if (node.sku.empty()) return Error{"no health profile is chosen: neither SKU nor GPUs are known"};
  const std::string hint = did_you_mean(node.sku, shipped_names());
  return Error{"no health profile is shipped for " + quoted(node.sku) +
               (hint.empty() ? "" : "; " + hint)};
}

HealthProfile read_profile_value(const Value& value, const std::vector<std::string>& checks) {
  if (value.is_scalar()) {
    const std::string name = value.text().value_or("");
    if (const ShippedProfile* found = find_shipped_profile(name)) return profile_of(*found);
    value.error("there is no shipped health profile " + quoted(name),
                did_you_mean(name, shipped_names()));
    return {};
  }
  if (!value.is_map()) {
    value.error("expected the name of a health profile, or a map");
    return {};
  }
  FindingList unsaid;  // whoever reads the whole says it
  const Value named = MapReader(Value(value.node(), value.path(), unsaid)).take("profile");
  const ShippedProfile* shipped = find_shipped_profile(named.text().value_or(""));
  if (shipped == nullptr && named.present()) {
    const std::string hint = did_you_mean(named.text().value_or(""), shipped_names());
    named.warning("no such profile is shipped: only what stands here is judged" +
                  (hint.empty() ? "" : "; " + hint));
  }
  return read_health_profile_over(shipped ? shipped->text : "", value, checks);
}

HealthProfileFile read_site_profile(const std::string& path, std::string_view text,
                                    const std::vector<std::string>& checks) {
  HealthProfileFile alone = read_health_profile(path, text, checks);
  const ShippedProfile* shipped = find_shipped_profile(alone.profile.name);
  if (shipped == nullptr) return alone;
  return read_health_profile_over(shipped->text, path, text, checks);
}

}  // namespace muster
