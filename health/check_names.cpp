#include "health/check_names.h"

#include "health/catalogue.h"

namespace muster {

std::vector<std::string> names_of_checks() {
  std::vector<std::string> names;
  for (const auto table :
       {gpu_checks(), infiniband_checks(), fabric_checks(), host_checks(), performance_checks()}) {
    for (const CheckSpec& spec : table) names.emplace_back(spec.id);
  }
  return names;
}

}  // namespace muster
