#include "health/checks/check_names.h"

#include "health/checks/start_gate.h"
#include "health/model/check.h"

namespace muster {

std::vector<std::string> names_of_checks() {
  std::vector<std::string> names;
  for (const auto table :
       {gpu_checks(), infiniband_checks(), fabric_checks(), host_checks(), performance_checks()}) {
    for (const CheckSpec& spec : table) names.emplace_back(spec.id);
  }
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
