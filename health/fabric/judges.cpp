#include "health/fabric/judges.h"
#include "health/model/check.h"

namespace muster {

FabricFindings judge_subnet_manager(const std::optional<SubnetManager>& manager) {
  constexpr std::string_view wanted = "SMINFO_MASTER";
  if (!manager) {
    HealthFinding finding = make_finding("fab.sm", "", CheckStatus::unknown);
    finding.evidence.emplace_back("the tool could not ask");
    return {{"", std::move(finding)}};
  }
  const bool is_master = manager->state == wanted;
  HealthFinding finding =
      make_finding("fab.sm", "", is_master ? CheckStatus::pass : CheckStatus::fail);
  finding.value = manager->state.empty() ? "no answer" : manager->state;
  finding.expected = wanted;
  if (manager->guid != 0) {
    finding.evidence.push_back("LID " + std::to_string(manager->lid) + ", " +
                               text_of_guid(manager->guid));
  }
  return {{"", std::move(finding)}};
}

}  // namespace muster
