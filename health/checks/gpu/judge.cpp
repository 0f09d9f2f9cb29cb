#include "health/checks/gpu/judge.h"

#include <algorithm>

#include "health/checks/gpu/gpu_check.h"
#include "health/model/check_words.h"

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

// "1234 (nvidia-smi) D 1 …": the name may hold anything.
struct ProcessState {
  std::string name;
  char state;
};
std::optional<ProcessState> parse_process_state(std::string_view stat) {
  const std::size_t open = stat.find('(');
  const std::size_t close = stat.rfind(')');
  if (open == stat.npos || close == stat.npos || close < open || close + 2 >= stat.size())
    return std::nullopt;
  return ProcessState{std::string(stat.substr(open + 1, close - open - 1)), stat[close + 2]};
}

bool tells_processes(const SourceFiles& sample) {
  return std::ranges::any_of(sample.names_below("/proc"), [&](const std::string& pid) {
    const auto text = sample.text("/proc/" + pid + "/stat");
    return text && parse_process_state(*text);
  });
}

bool is_stuck(const SourceFiles& sample, const std::string& path, const std::string& name) {
  const auto text = sample.text(path);
  const auto process = text ? parse_process_state(*text) : std::nullopt;
  return process && process->state == 'D' && process->name == name;
}

// Processes of the driver, or the helper of ours, that are stuck in the kernel in all looks.
std::vector<HealthFinding> judge_stuck(const CheckInput& input) {
  const auto samples = input.looks;
  if (input.profile.gpu.count == 0 || samples.empty()) return {};
  HealthFinding finding = make_finding(input.check(), "", CheckStatus::pass);
  finding.expected = "none";
  if (!std::ranges::all_of(samples, tells_processes)) {
    finding.status = CheckStatus::unknown;
    finding.evidence.emplace_back("/proc: no process could be read");
    return {finding};
  }
  std::string stuck;
  for (const std::string& pid : samples.front().names_below("/proc")) {
    const std::string path = "/proc/" + pid + "/stat";
    const auto text = samples.front().text(path);
    const auto process = text ? parse_process_state(*text) : std::nullopt;
    if (!process || !(process->name.starts_with("nvidia") || process->name == input.helper_name))
      continue;
    if (!std::ranges::all_of(samples, [&](const SourceFiles& sample) {
          return is_stuck(sample, path, process->name);
        }))
      continue;
    stuck += (stuck.empty() ? "" : ", ") + pid + " (" + process->name + ")";
  }
  if (!stuck.empty()) finding.status = CheckStatus::fail;
  finding.value = stuck.empty() ? "none" : stuck;
  return {finding};
}

}  // namespace

std::span<const CheckSpec> gpu_process_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "gpu.dstate", .source = "/proc/*/stat", .says = "no nvidia process stuck in the kernel",
     .severity = stop_reboot, .phases = when("T"), .cost = 20'000us,
     .group = processes, .judge = judge_stuck},
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
