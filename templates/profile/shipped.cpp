#include "templates/profile/shipped.h"

#include <algorithm>

#include "scheduler/text/pattern.h"
#include "scheduler/text/spelling.h"
#include "templates/yaml/value.h"

namespace muster {
namespace {

constexpr std::string_view vendor_prefix = "standard_";
// Files of sites may hold them.
constexpr std::pair<std::string_view, std::string_view> former_names[] = {{"b200-8x", "hgx-b200"},
                                                                          {"b300-8x", "hgx-b300"}};

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

HealthProfileFile file_of(const ShippedProfile& shipped) {
  return read_health_profile(std::string(shipped.name), shipped.text, {});
}

bool fits_if_known(const std::string& pattern, const std::string& said) {
  return pattern.empty() || said.empty() || fits_pattern(pattern, said);
}

bool is_of_maker(const HealthProfileFile& file) {
  return !file.match.vendor.empty();
}

// A size that is rented has the ports that it names and no others; a model has its site's.
bool is_rented(const HealthProfileFile& file) {
  return is_of_maker(file) && file.match.product.empty();
}

bool is_named(const HealthProfile& profile, const std::string& port) {
  return std::ranges::any_of(
      profile.ib.ports, [&](const std::string& pattern) { return fits_pattern(pattern, port); });
}

// Nothing that is there is another maker's.
bool may_be(const HealthProfileFile& file, const NodeKind& node) {
  const HealthProfile& profile = file.profile;
  const auto is_foreign = [&](const std::string& port) { return !is_named(profile, port); };
  const bool has_foreign_port =
      is_rented(file) && node.ports && std::ranges::any_of(*node.ports, is_foreign);
  return !profile.match_gpu_name.empty() && fits_pattern(profile.match_gpu_name, node.gpu_name) &&
         fits_if_known(file.match.vendor, node.vendor) &&
         fits_if_known(file.match.product, node.product) && !has_foreign_port;
}

// How much of what is known tells that it is a maker's; of what may be.
int evidence_of_maker(const HealthProfileFile& file, const NodeKind& node) {
  const bool is_by_vendor = is_of_maker(file) && !node.vendor.empty();
  const bool is_by_product = !file.match.product.empty() && !node.product.empty();
  const bool is_by_ports = is_rented(file) && node.ports && !node.ports->empty();
  return (is_by_vendor ? 1 : 0) + (is_by_product ? 1 : 0) + (is_by_ports ? 1 : 0);
}

bool has_all_parts(const HealthProfileFile& file, const NodeKind& node) {
  const HealthProfile& profile = file.profile;
  const bool has_gpus = !profile.match_gpu_count || *profile.match_gpu_count == node.gpu_count;
  const bool lacks_ports =
      is_rented(file) && !profile.ib.ports.empty() && node.ports && node.ports->empty();
  return has_gpus && !lacks_ports;
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
  const std::string kind = std::to_string(node.gpu_count) + " x " + quoted_text(node.gpu_name);
  if (fitting.empty()) return Error{"no health profile is shipped for " + kind};
  if (fitting.size() == 1) return fitting.front();
  return Error{"several health profiles fit " + kind + "; name one of " + names_of(fitting)};
}

Result<const ShippedProfile*> choose_by_parts(const NodeKind& node) {
  std::vector<const ShippedProfile*> fitting;
  int most = 0;
  for (const ShippedProfile& each : shipped_profiles()) {
    const HealthProfileFile file = file_of(each);
    const int evidence = evidence_of_maker(file, node);
    const bool is_proven = !is_of_maker(file) || evidence > 0;
    const bool fits = is_proven && may_be(file, node) && has_all_parts(file, node);
    if (!fits || evidence < most) continue;
    if (evidence > most) fitting.clear();
    most = evidence;
    fitting.push_back(&each);
  }
  return only_one(fitting, node);
}

}  // namespace

const ShippedProfile* find_shipped_profile(std::string_view name) {
  std::string wanted = plain_name(name);
  for (const auto& [former, today] : former_names) {
    if (wanted == plain_name(former)) wanted = plain_name(today);
  }
  const auto found = std::ranges::find_if(shipped_profiles(), [&](const ShippedProfile& each) {
    return plain_name(each.name) == wanted;
  });
  return found == shipped_profiles().end() ? nullptr : &*found;
}

Result<const ShippedProfile*> choose_shipped_profile(const NodeKind& node) {
  if (const ShippedProfile* found = find_shipped_profile(node.sku)) return found;
  if (!node.gpu_name.empty()) return choose_by_parts(node);
  if (node.sku.empty()) return Error{"no health profile matches this host"};
  const std::string hint = did_you_mean(node.sku, shipped_names());
  return Error{"no health profile is shipped for " + quoted_text(node.sku) +
               (hint.empty() ? "" : "; " + hint)};
}

bool is_for_all_makers(const ShippedProfile& profile) {
  return !is_of_maker(file_of(profile));
}

const ShippedProfile* still_fitting_profile(const std::string& before, const NodeKind& node) {
  const ShippedProfile* earlier = before.empty() ? nullptr : find_shipped_profile(before);
  if (earlier == nullptr || find_shipped_profile(node.sku) != nullptr) return nullptr;
  const HealthProfileFile file = file_of(*earlier);
  const bool is_kept = file.profile.match_gpu_name.empty() || node.gpu_name.empty();
  return is_kept || may_be(file, node) ? earlier : nullptr;
}

HealthProfile read_profile_value(const Value& value, const std::vector<std::string>& checks) {
  if (value.is_scalar()) {
    const std::string name = value.text().value_or("");
    if (const ShippedProfile* found = find_shipped_profile(name)) return file_of(*found).profile;
    value.error("there is no shipped health profile " + quoted_text(name),
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
    named.warning("no such profile is shipped: only what this file says is judged" +
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
