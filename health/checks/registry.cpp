// All checks there are.
#include <algorithm>
#include <iterator>

#include "health/checks/check_names.h"
#include "health/checks/start_gate.h"
#include "health/model/check.h"

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

std::vector<std::string> names_of_checks() {
  std::vector<std::string> names;
  for (const CheckSpec* check : every_check()) names.emplace_back(check->id);
  return names;
}

std::vector<std::string> names_of_gate_checks() {
  std::vector<std::string> names = names_of_checks();
  for (const std::string_view id : start_gate_checks()) {
    if (find_check(id) == nullptr) names.emplace_back(id);
  }
  return names;
}

std::vector<std::string> names_of_checks_at_gates() {
  std::vector<std::string> names = names_of_gate_checks();
  std::erase_if(names, [](const std::string& name) {
    const CheckSpec* spec = find_check(name);
    return spec != nullptr && !has(spec->phases, Phase::prolog);
  });
  return names;
}

}  // namespace muster
