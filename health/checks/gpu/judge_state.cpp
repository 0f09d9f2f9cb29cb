#include <algorithm>
#include <cmath>
#include <string>

#include "health/checks/gpu/gpu_check.h"
#include "health/checks/host/processes.h"
#include "health/model/check_words.h"
#include "health/model/majority.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::int64_t reason_hw_slowdown = 0x8;
constexpr std::int64_t reason_sw_thermal = 0x20;
constexpr std::int64_t reason_hw_thermal = 0x40;
constexpr std::int64_t reason_power_brake = 0x80;
constexpr std::int64_t hardware_reasons =
    reason_hw_slowdown | reason_hw_thermal | reason_power_brake;

std::string reasons_text(std::int64_t reasons) {
  constexpr std::pair<std::int64_t, const char*> words[] = {
      {reason_hw_slowdown, "hardware slowdown"},
      {reason_hw_thermal, "hardware thermal"},
      {reason_power_brake, "power brake"},
      {reason_sw_thermal, "software thermal"}};
  std::vector<std::string> said;
  for (const auto& [reason, word] : words)
    if ((reasons & reason) != 0) said.emplace_back(word);
  return said.empty() ? "none" : joined(said);
}

// The part of the time, in percent, that a counter of nanoseconds grew by.
double percent_of_time(GpuCheck& check, std::string_view field) {
  const auto grown_ns = check.growth({field});
  return grown_ns ? static_cast<double>(*grown_ns) / 1e7 / check.seconds() : 0;
}

GpuOutcome judge_throttle(GpuCheck& check) {
  const auto reasons = check.number({"clocks.reasons"});
  if (!reasons) return check.unread();
  const double most = check.limit("slowed_max_pct");
  const double hardware =
      std::max(percent_of_time(check, "field.270"), percent_of_time(check, "field.271"));
  const double software = percent_of_time(check, "field.269");
  const std::string value = reasons_text(*reasons) + "; hardware " +
                            std::to_string(std::lround(hardware)) + " %, software " +
                            std::to_string(std::lround(software)) + " % of the time";
  const std::string expected = "none, < " + std::to_string(std::lround(most)) + " %";
  if ((*reasons & hardware_reasons) != 0 || hardware >= most) return check.failed(value, expected);
  if ((*reasons & reason_sw_thermal) != 0 || software >= most)
    return check.failed(value, expected, only_warn);
  return check.passed(value, expected);
}

// How far below its limit it is, in C: as the driver says, else from the two temperatures.
std::optional<std::int64_t> margin_of(GpuCheck& check) {
  if (const auto margin = check.number({"temp.margin"})) return margin;
  const auto now = check.number({"temp.gpu"});
  const auto slowdown = check.number({"temp.slowdown"});
  if (!now || !slowdown) return std::nullopt;
  return *slowdown - *now;
}

GpuOutcome judge_temperature(GpuCheck& check) {
  const auto margin = margin_of(check);
  if (!margin) return check.unread();
  const auto memory = check.number({"field.82"});
  const auto memory_max = check.number({"temp.memory_max"});
  const auto memory_margin =
      memory && memory_max && *memory > 0 ? std::optional(*memory_max - *memory) : std::nullopt;
  const std::int64_t least = std::min(*margin, memory_margin.value_or(*margin));
  const auto reasons = check.number({"clocks.reasons"});
  HealthFinding finding = check.judged(least > 0, std::to_string(least), "> 0");
  finding.unit = "C below the limit";
  if (least <= 0 && (reasons.value_or(0) & reason_hw_thermal) != 0)
    finding.severity = {Remedy::drain, {}, false};
  return finding;
}

GpuOutcome judge_persistence(GpuCheck& check) {
  const auto wanted = check.profile().persistence;
  if (!wanted) return std::nullopt;
  const auto mode = check.number({"persistence"});
  if (!mode) return check.unread();
  return check.judged(*mode == (*wanted ? 1 : 0), *mode == 0 ? "off" : "on",
                      *wanted ? "on" : "off");
}

void learn_persistence(BaselineNode& node) {
  node.profile.gpu.persistence = same_flag(node, "persistence", "gpu.persistence");
}

GpuOutcome judge_modes(GpuCheck& check) {
  const auto mig_wanted = check.profile().mig;
  if (!mig_wanted) return std::nullopt;
  const auto mig = check.number({"mig.current"});
  const auto pending = check.number({"mig.pending"});
  const auto compute = check.number({"compute_mode"});
  if (!mig || !pending || !compute) return check.unread();
  const std::int64_t mig_expected = *mig_wanted ? 1 : 0;
  const double compute_expected = check.limit("compute_mode");
  const bool is_fine = *mig == mig_expected && *pending == mig_expected &&
                       static_cast<double>(*compute) == compute_expected;
  return check.judged(is_fine,
                      "MIG " + std::to_string(*mig) + ", pending " + std::to_string(*pending) +
                          ", compute mode " + std::to_string(*compute),
                      "MIG " + std::to_string(mig_expected) + ", compute mode " +
                          std::to_string(std::lround(compute_expected)));
}

void learn_modes(BaselineNode& node) {
  node.profile.gpu.mig = same_flag(node, "mig.current", "gpu.mig");
}

// As the driver says, else as most others of the node have it.
std::optional<std::int64_t> usual_clock(GpuCheck& check, const std::string& domain) {
  if (const auto usual = check.number({"clock.default." + domain})) return usual;
  const GpuReadings& now = check.gpu().situation.now;
  std::vector<std::optional<std::int64_t>> said;  // a silent one is no vote, and counts
  for (const std::string& device : now.devices())
    said.push_back(now.number(device + ".clock.app." + domain));
  return said_by_most(said).value_or(std::nullopt);
}

HealthFinding judged_clock(GpuCheck& check, const std::string& key, std::int64_t mhz, bool is_fine,
                           std::string expected) {
  HealthFinding finding =
      check.judged(is_fine, key + " " + std::to_string(mhz), std::move(expected));
  finding.unit = "MHz";
  return finding;
}

// Where the profile does not say what they are, nobody may have lowered them.
GpuOutcome judge_lowered_clocks(GpuCheck& check, double tolerance) {
  GpuOutcome outcome;
  for (const std::string domain : {"sm", "mem"}) {
    const std::string key = "clock.app." + domain;
    const auto mhz = check.number({key});
    const auto usual = usual_clock(check, domain);
    if (!mhz || !usual || check.limit_if_any(domain + "_app_mhz")) continue;
    const bool is_fine = static_cast<double>(*mhz) >= static_cast<double>(*usual) - tolerance;
    outcome = judged_clock(check, key, *mhz, is_fine, ">= " + std::to_string(*usual));
    if (!is_fine) return outcome;
  }
  return outcome;
}

// Clocks that the profile names as limits of the check: sm_max_mhz, mem_max_mhz, sm_app_mhz,
// mem_app_mhz.
GpuOutcome judge_clocks(GpuCheck& check) {
  constexpr struct {
    const char* limit;
    const char* key;
  } clocks[] = {{"sm_max_mhz", "clock.max.sm"},
                {"mem_max_mhz", "clock.max.mem"},
                {"sm_app_mhz", "clock.app.sm"},
                {"mem_app_mhz", "clock.app.mem"}};
  const double tolerance = check.limit("tolerance_mhz");
  GpuOutcome outcome;
  for (const auto& clock : clocks) {
    const auto wanted = check.limit_if_any(clock.limit);
    if (!wanted) continue;
    const auto mhz = check.number({clock.key});
    if (!mhz) return check.unread();
    const bool is_fine = std::abs(static_cast<double>(*mhz) - *wanted) <= tolerance;
    outcome = judged_clock(
        check, clock.key, *mhz, is_fine,
        std::to_string(std::lround(*wanted)) + " +-" + std::to_string(std::lround(tolerance)));
    if (!is_fine) return outcome;
  }
  GpuOutcome lowered = judge_lowered_clocks(check, tolerance);
  const bool is_worse = lowered && (!outcome || lowered->status == CheckStatus::fail);
  return is_worse ? std::move(lowered) : std::move(outcome);
}

GpuOutcome judge_power_limit(GpuCheck& check) {
  const auto enforced = check.number({"power.enforced"});
  const auto usual = check.number({"power.default"});
  if (!enforced || !usual) return check.unread();
  HealthFinding finding =
      check.judged(*enforced == *usual, std::to_string(*enforced), std::to_string(*usual));
  finding.unit = "mW";
  return finding;
}

// Only where no ranks run.
GpuOutcome judge_processes(GpuCheck& check) {
  const GpuView& gpu = check.gpu();
  if (!gpu.situation.is_idle) return std::nullopt;
  const auto processes = check.text("procs");
  const auto used = check.number({"memory.used"});
  if (!processes || !used) return check.unread();
  const auto most = static_cast<std::int64_t>(check.limit("used_max_bytes"));
  const std::string memory = std::to_string(*used >> 20) + " MiB used";
  const std::string expected = "none, < " + std::to_string(most >> 20) + " MiB used";
  if (*processes != "none") return check.failed(*processes + "; " + memory, expected);
  // Memory that belongs to nobody is only given back by a reset.
  if (*used >= most) return check.failed("none; " + memory, expected, {Remedy::reset, {}, false});
  return check.passed("none; " + memory, expected);
}

GpuOutcome judge_inforom(GpuCheck& check) {
  const GpuView& gpu = check.gpu();
  constexpr int corrupted = 14;
  const GpuReading* reading = gpu.situation.now.find(gpu.device + ".inforom");
  if (reading != nullptr && reading->rc == corrupted)
    return check.failed(nvml_code_text(corrupted), "valid");
  if (!check.text("inforom")) return check.unread();
  return check.passed("valid", "valid");
}

// Where the profile has the limit `enabled`, 0 or 1.
GpuOutcome judge_gsp(GpuCheck& check) {
  const auto wanted = check.limit_if_any("enabled");
  if (!wanted) return std::nullopt;
  const auto mode = check.number({"gsp.mode"});
  if (!mode) return check.unread();
  return check.judged(static_cast<double>(*mode) == *wanted, std::to_string(*mode),
                      std::to_string(std::lround(*wanted)));
}

// Where the profile has the limit `gpu3_numa_node`.
GpuOutcome judge_topology(GpuCheck& check) {
  const GpuView& gpu = check.gpu();
  const auto wanted = check.limit_if_any(gpu.device + "_numa_node");
  if (!wanted) return std::nullopt;
  if (gpu.pci_address.empty()) {
    static_cast<void>(check.text("bdf"));
    return check.unread();
  }
  const std::string path = pci_file(gpu.pci_address, "numa_node");
  const auto node = gpu.situation.files.number(path);
  if (!node) return check.unknown(path + ": " + gpu.situation.files.reading(path).error);
  return check.judged(static_cast<double>(*node) == *wanted, std::to_string(*node),
                      std::to_string(std::lround(*wanted)));
}

// Processes of the driver, or the helper of ours, that are stuck in the kernel in all looks.
std::vector<HealthFinding> judge_driver_processes(const CheckInput& input) {
  if (input.profile.gpu.count == 0 || input.looks.empty()) return {};
  std::vector<ProcessStates> looks;
  for (const SourceFiles& look : input.looks) looks.push_back(process_states_of(look));
  if (std::ranges::any_of(looks, &ProcessStates::empty)) {
    return {make_finding(input.check(), "", CheckStatus::unknown, {}, "none",
                         "/proc: no process could be read")};
  }
  std::vector<std::string> stuck;
  for (const auto& [pid, process] : looks.front()) {
    const auto is_stuck = [pid = pid, &name = process.name](const ProcessStates& look) {
      const auto found = look.find(pid);
      return found != look.end() && found->second.state == 'D' && found->second.name == name;
    };
    const bool is_of_driver =
        process.name.starts_with("nvidia") || process.name == input.helper_name;
    if (is_of_driver && std::ranges::all_of(looks, is_stuck))
      stuck.push_back(std::to_string(pid) + " (" + process.name + ")");
  }
  return {make_finding(input.check(), "", stuck.empty() ? CheckStatus::pass : CheckStatus::fail,
                       stuck.empty() ? "none" : joined(stuck), "none")};
}

// Whether who launches ranks can open the driver's device nodes.
std::vector<HealthFinding> judge_device_nodes(const CheckInput& input) {
  const auto nodes = gpu_device_nodes(input.profile);
  if (nodes.empty()) return {};
  HealthFinding finding = make_finding(input.check(), "", CheckStatus::pass, {},
                                       std::to_string(nodes.size()) + " open");
  std::size_t open = 0;
  bool is_refused = false;
  for (const std::string& node : nodes) {
    const FileReading& reading = input.files.reading(node);
    if (reading.ok()) ++open;
    const bool is_denied = reading.is_missing || reading.error.starts_with("Permission denied");
    is_refused = is_refused || (!reading.ok() && is_denied);
    if (!reading.ok()) finding.evidence.push_back(node + ": " + reading.error);
  }
  finding.value = std::to_string(open) + " open";
  if (open == nodes.size()) return {finding};
  finding.status = is_refused ? CheckStatus::fail : CheckStatus::unknown;
  return {finding};
}

}  // namespace

std::span<const CheckSpec> gpu_state_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    // Power and cooling are a rack's.
    {.id = "gpu.throttle", .source = "CurrentClocksEventReasons, fields 269-271",
     .says = "no hardware slowdown, < 1 % of the time", .severity = drain, .phases = when("T"),
     .is_often_shared = true, .group = gpu, .limits = {{"slowed_max_pct", "%", 1}},
     .judge = on_each_gpu<judge_throttle>},
    {.id = "gpu.temp", .source = "MarginTemperature, TemperatureV, field 82",
     .says = "margin > 0 C", .phases = when("T"), .group = gpu,
     .judge = on_each_gpu<judge_temperature>},
    {.id = "gpu.persistence", .source = "PersistenceMode",
     .says = "the profile's", .severity = drain, .fault = setup, .phases = when("P"), .group = gpu,
     .is_asked = is_set<&HealthProfile::gpu, &GpuProfile::persistence>,
     .judge = on_each_gpu<judge_persistence>,
     .learn = learn_persistence},
    {.id = "gpu.modes", .source = "MigMode, ComputeMode", .says = "the profile's",
     .severity = drain, .fault = setup, .phases = when("PE"), .group = gpu,
     .limits = {{"compute_mode", "", 0, 0, 3, true}},
     .is_asked = is_set<&HealthProfile::gpu, &GpuProfile::mig>,
     .judge = on_each_gpu<judge_modes>,
     .learn = learn_modes},
    {.id = "gpu.clocks", .source = "MaxClockInfo, ApplicationsClock",
     .says = "the profile's +-30 MHz", .severity = drain, .fault = setup, .phases = when("PE"),
     .group = gpu,
     .limits = {{"sm_max_mhz", "MHz"}, {"mem_max_mhz", "MHz"}, {"sm_app_mhz", "MHz"},
                {"mem_app_mhz", "MHz"}, {"tolerance_mhz", "MHz", 30}},
     .judge = on_each_gpu<judge_clocks>},
    {.id = "gpu.power_limit", .source = "EnforcedPowerLimit, PowerManagementDefaultLimit",
     .says = "equal", .severity = drain, .fault = setup, .phases = when("PE"), .group = gpu,
     .judge = on_each_gpu<judge_power_limit>},
    // A driver and its contexts hold some hundred MiB.
    {.id = "gpu.procs", .source = "ComputeRunningProcesses_v3, MemoryInfo_v2",
     .says = "none, used < 1 GiB", .severity = drain, .phases = when("PE"),
     .cost = 4500us, .group = gpu,
     .limits = {{"used_max_bytes", "bytes", 1 << 30}}, .judge = on_each_gpu<judge_processes>},
    {.id = "gpu.inforom", .source = "nvmlDeviceValidateInforom", .says = "valid", .severity = rma,
     .phases = when("P"), .cost = 1ms, .group = gpu, .judge = on_each_gpu<judge_inforom>},
    {.id = "gpu.gsp", .source = "GspFirmwareMode", .says = "the profile's", .severity = drain,
     .fault = setup, .phases = when("P"), .group = gpu, .limits = {{"enabled", "", {}, 0, 1, true}},
     .is_asked = [](const HealthProfile& profile, const HealthFinding& finding) {
       return limit_of(profile, *find_check(finding.check), "enabled").has_value();
     },
     .judge = on_each_gpu<judge_gsp>},
    {.id = "gpu.topo", .source = "B/numa_node", .says = "the profile's", .severity = drain,
     .fault = setup, .phases = when("P"), .cost = 1ms, .group = gpu,
     .limits = {{"gpu*_numa_node", "", {}, 0, 1023, true}},
     .is_asked = [](const HealthProfile& profile, const HealthFinding& finding) {
       const std::string limit = finding.device + "_numa_node";
       return limit_of(profile, *find_check(finding.check), limit).has_value();
     },
     .judge = on_each_gpu<judge_topology>},
    {.id = "gpu.devnodes", .source = "/dev/nvidia*", .says = "the launching user can open them",
     .severity = drain, .fault = setup, .phases = when("P"), .group = gpu,
     .is_asked = is_set<&HealthProfile::gpu, &GpuProfile::count>,
     .judge = judge_device_nodes},
    {.id = "gpu.dstate", .source = "/proc/*/stat", .says = "no nvidia process stuck in the kernel",
     .severity = stop_reboot, .phases = when("T"), .cost = 20'000us,
     .group = processes, .judge = judge_driver_processes},
  };
  // clang-format on
  return all;
}

}  // namespace muster
