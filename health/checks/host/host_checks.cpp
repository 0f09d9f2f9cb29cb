#include "health/checks/host/host_checks.h"

#include <algorithm>

namespace muster {

std::span<const CheckSpec> host_checks() {
  static const std::vector<CheckSpec> all =
      joined_rows({memory_checks(), storage_checks(), kernel_state_checks(), processor_checks(),
                   edac_checks(), version_checks(), process_checks(), mount_checks()});
  return all;
}

std::vector<std::string> host_sources(const HealthProfile& profile) {
  std::vector<std::string> sources;
  for (const CheckSpec& check : host_checks()) {
    if (check.group != SourceGroup::host) continue;
    for (const std::string_view one : check.reads) {
      if (std::ranges::find(sources, one) == sources.end()) sources.emplace_back(one);
    }
  }
  for (const CheckSpec& check : host_checks()) {
    if (!check.reads_for) continue;
    for (std::string& one : check.reads_for(profile)) sources.push_back(std::move(one));
  }
  return sources;
}

}  // namespace muster
