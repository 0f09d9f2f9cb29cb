#include "health/checks/gpu/judge.h"

#include <algorithm>

#include "health/checks/gpu/gpu_check.h"

namespace muster {

namespace {

void judge_gpu(const GpuView& gpu, std::vector<HealthFinding>& findings) {
  for (const auto judges :
       {gpu_presence_judges(), gpu_memory_judges(), gpu_link_judges(), gpu_state_judges()}) {
    for (const GpuJudge judge : judges) {
      if (auto finding = judge(gpu)) findings.push_back(std::move(*finding));
    }
  }
}

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

}  // namespace

std::vector<HealthFinding> judge_gpus(const GpuSituation& situation) {
  std::vector<HealthFinding> findings;
  const auto expected = situation.profile.gpu.count;
  if (expected ? *expected == 0 : !has_driver(situation.now)) return findings;
  judge_gpu_node(situation, findings);
  for (int index = 0; index < situation.now.count(); ++index)
    judge_gpu(view_of_gpu(situation, index), findings);
  follow_driver(findings);
  return findings;
}

std::vector<HealthFinding> judge_stuck_gpu_processes(std::span<const SourceFiles> samples,
                                                     const std::string& helper_name) {
  if (samples.size() < 2) return {};
  HealthFinding finding = make_finding("gpu.dstate", "", CheckStatus::pass);
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
    if (!process || !(process->name.starts_with("nvidia") || process->name == helper_name))
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

}  // namespace muster
