#include "health/checks/gpu/judge.h"

#include <algorithm>

#include "health/checks/gpu/gpu_check.h"
#include "health/checks/host/processes.h"
#include "health/model/check_words.h"
#include "scheduler/text/text.h"

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

// Processes of the driver, or the helper of ours, that are stuck in the kernel in all looks.
std::vector<HealthFinding> judge_driver_processes(const CheckInput& input) {
  if (input.profile.gpu.count == 0 || input.looks.empty()) return {};
  HealthFinding finding = make_finding(input.check(), "", CheckStatus::pass);
  finding.expected = "none";
  std::vector<ProcessStates> looks;
  for (const SourceFiles& look : input.looks) looks.push_back(process_states_of(look));
  if (std::ranges::any_of(looks, [](const ProcessStates& look) { return look.empty(); })) {
    finding.status = CheckStatus::unknown;
    finding.evidence.emplace_back("/proc: no process could be read");
    return {finding};
  }
  std::vector<std::string> stuck;
  for (const auto& [number, process] : looks.front()) {
    const int pid = number;
    const std::string& name = process.name;
    const auto is_stuck = [&](const ProcessStates& look) {
      const auto found = look.find(pid);
      return found != look.end() && found->second.state == 'D' && found->second.name == name;
    };
    const bool is_of_driver = name.starts_with("nvidia") || name == input.helper_name;
    if (is_of_driver && std::ranges::all_of(looks, is_stuck))
      stuck.push_back(std::to_string(pid) + " (" + name + ")");
  }
  if (!stuck.empty()) finding.status = CheckStatus::fail;
  finding.value = stuck.empty() ? "none" : joined(stuck);
  return {finding};
}

}  // namespace

std::span<const CheckSpec> gpu_process_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "gpu.dstate", .source = "/proc/*/stat", .says = "no nvidia process stuck in the kernel",
     .severity = stop_reboot, .phases = when("T"), .cost = 20'000us,
     .group = processes, .judge = judge_driver_processes},
  };
  // clang-format on
  return all;
}

std::span<const CheckSpec> gpu_checks() {
  static const std::vector<CheckSpec> all =
      joined_rows({gpu_node_checks(), gpu_presence_checks(), gpu_memory_checks(), gpu_link_checks(),
                   gpu_state_checks(), gpu_source_checks(), gpu_process_checks()});
  return all;
}

std::vector<HealthFinding> judge_gpus(const GpuSituation& situation) {
  const auto expected = situation.profile.gpu.count;
  if (expected ? *expected == 0 : !has_driver(situation.now)) return {};
  GpuLook look{situation, {}};
  for (int index = 0; index < situation.now.count(); ++index)
    look.gpus.push_back(view_of_gpu(situation, index));
  CheckInput input{situation.files, situation.profile};
  input.gpu = &look;
  std::vector<HealthFinding> findings = judge_group(gpu_checks(), SourceGroup::gpu, input);
  follow_driver(findings);
  return findings;
}

}  // namespace muster
