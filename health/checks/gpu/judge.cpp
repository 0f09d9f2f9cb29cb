#include "health/checks/gpu/judge.h"

#include "health/checks/gpu/gpu_check.h"

namespace muster {

namespace {

// The table's remedy stays as the next step where it is harder than what the driver wants.
void follow(HealthFinding& finding, const HealthFinding& driver) {
  const CheckSeverity table = finding.severity;
  finding.severity = driver.severity;
  if (table.remedy > driver.severity.remedy)
    finding.severity.on_recurrence = table.remedy;
  else if (table.on_recurrence && *table.on_recurrence > driver.severity.remedy)
    finding.severity.on_recurrence = table.on_recurrence;
  finding.evidence.push_back("the driver wants: " + driver.value);
}

// The driver knows best how its GPU is brought back.
void follow_driver(std::vector<HealthFinding>& findings) {
  std::map<std::string, HealthFinding> drivers;
  for (const HealthFinding& one : findings) {
    if (one.check == "gpu.recovery_action" && one.status == CheckStatus::fail)
      drivers.emplace(one.device, one);
  }
  for (HealthFinding& one : findings) {
    const auto driver = drivers.find(one.device);
    const bool is_judged = one.status == CheckStatus::fail && one.severity.remedy != Remedy::warn &&
                           one.fault_class == FaultClass::node;
    if (driver != drivers.end() && is_judged && one.check != "gpu.recovery_action")
      follow(one, driver->second);
  }
}

bool has_driver(const GpuReadings& readings) {
  constexpr int driver_not_loaded = 9;
  constexpr int library_not_found = 12;
  const GpuReading* init = readings.find("init");
  return init == nullptr || (init->rc != driver_not_loaded && init->rc != library_not_found);
}

}  // namespace

std::span<const CheckSpec> gpu_checks() {
  static const std::vector<CheckSpec> all =
      joined_rows({gpu_node_checks(), gpu_presence_checks(), gpu_memory_checks(), gpu_link_checks(),
                   gpu_state_checks(), gpu_source_checks()});
  return all;
}

std::vector<HealthFinding> judge_gpus(const GpuSituation& situation) {
  const auto expected = situation.profile.gpu.count;
  if (expected ? *expected == 0 : !has_driver(situation.now)) return {};
  GpuLook look{situation, {}};
  for (const std::string& device : situation.now.devices())
    look.gpus.push_back(view_of_gpu(situation, device));
  CheckInput input{situation.files, situation.profile};
  input.gpu = &look;
  std::vector<HealthFinding> findings = judge_group(gpu_checks(), SourceGroup::gpu, input);
  follow_driver(findings);
  return findings;
}

}  // namespace muster
