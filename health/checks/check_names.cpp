#include "health/checks/check_names.h"

#include "health/checks/registry.h"
#include "health/checks/start_gate.h"

namespace muster {

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
