#include "health/checks/registry.h"

#include <algorithm>
#include <iterator>

namespace muster {

namespace {

std::ptrdiff_t place_of_kind(const CheckSpec* check) {
  constexpr std::string_view kinds[] = {"gpu", "ib", "fab", "host", "perf"};
  return std::ranges::find(kinds, check->id.substr(0, check->id.find('.'))) - std::begin(kinds);
}

}  // namespace

const std::vector<const CheckSpec*>& every_check() {
  static const std::vector<const CheckSpec*> all = [] {
    std::vector<const CheckSpec*> checks;
    for (const auto table : {gpu_checks(), infiniband_checks(), fabric_checks(), host_checks(),
                             kernel_log_checks(), performance_checks()}) {
      for (const CheckSpec& check : table) checks.push_back(&check);
    }
    std::ranges::stable_sort(checks, {}, place_of_kind);
    return checks;
  }();
  return all;
}

const CheckSpec* find_check(std::string_view id) {
  const auto& all = every_check();
  const auto found = std::ranges::find(all, id, [](const CheckSpec* check) { return check->id; });
  return found == all.end() ? nullptr : *found;
}

}  // namespace muster
