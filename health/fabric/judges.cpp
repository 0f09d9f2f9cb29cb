#include "health/fabric/judges.h"
#include "health/model/check_words.h"

namespace muster {

const CheckSpec fabric_sm{.id = "fab.sm",
                          .source = "sminfo",
                          .says = "a subnet manager is master",
                          .fault = FaultClass::infra,
                          .phases = check_words::when("T"),
                          .cost = std::chrono::milliseconds(5)};

std::span<const CheckSpec> fabric_checks() {
  static const CheckSpec all[] = {fabric_errors, fabric_links, fabric_discover, fabric_sm};
  return all;
}

FabricFindings judge_subnet_manager(const std::optional<SubnetManager>& manager) {
  constexpr std::string_view wanted = "SMINFO_MASTER";
  if (!manager) {
    HealthFinding finding = make_finding(fabric_sm, "", CheckStatus::unknown);
    finding.evidence.emplace_back("the tool could not ask");
    return {{"", std::move(finding)}};
  }
  const bool is_master = manager->state == wanted;
  HealthFinding finding =
      make_finding(fabric_sm, "", is_master ? CheckStatus::pass : CheckStatus::fail);
  finding.value = manager->state.empty() ? "no answer" : manager->state;
  finding.expected = wanted;
  if (manager->guid != 0) {
    finding.evidence.push_back("LID " + std::to_string(manager->lid) + ", " +
                               text_of_guid(manager->guid));
  }
  return {{"", std::move(finding)}};
}

}  // namespace muster
