// The checks of the node as a whole: driver, number of GPUs, modules, versions.
#include <algorithm>
#include <cctype>
#include <ranges>

#include "health/checks/gpu/gpu_check.h"
#include "health/checks/gpu/sources.h"
#include "health/model/check_words.h"
#include "health/model/majority.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr int code_driver_not_loaded = 9;
constexpr int code_interrupts = 11;
constexpr int code_no_library = 12;
constexpr int code_versions_differ = 18;

constexpr const char* modules_file = "/proc/modules";

constexpr CheckSeverity cfg{Remedy::drain, {}, false};

GpuOutcome judge_init(GpuCheck& check) {
  const GpuReadings& now = check.gpu().situation.now;
  const GpuReading* init = now.find("init");
  if (init == nullptr) {
    if (!now.stopped().empty()) return check.unknown(now.stopped());
    if (now.calling() != "nvmlInit") return check.unknown("the driver was not queried");
    return check.failed("no answer", "0");
  }
  if (init->rc == 0) return check.passed("0", "0");
  HealthFinding finding = check.failed(nvml_code_text(init->rc), "0");
  if (init->rc == code_interrupts) return finding;
  const bool is_missing = init->rc == code_driver_not_loaded || init->rc == code_no_library;
  if (!is_missing && init->rc != code_versions_differ)
    return check.unknown(nvml_code_text(init->rc));
  if (is_missing) finding.severity = cfg;
  finding.fault_class = FaultClass::setup;
  return finding;
}

// Where nobody says how many GPUs there are, a node without a driver has none.
bool counts_gpus_or_has_driver(const HealthProfile& profile, const HealthFinding& finding) {
  const bool is_driver_missing =
      finding.fault_class == FaultClass::setup && finding.severity.remedy == cfg.remedy;
  return profile.gpu.count || !is_driver_missing;
}

GpuOutcome judge_count(GpuCheck& check) {
  const CheckInput& input = check.input();
  if (!input.profile.gpu.count) return std::nullopt;
  const int wanted = *input.profile.gpu.count;
  const std::string expected = std::to_string(wanted);
  const auto on_pci = static_cast<int>(gpus_on_pci(input.files).size());
  const bool is_scanned = !input.files.names_below("/sys/bus/pci/devices").empty();
  const auto counted = check.gpu().situation.now.number("count");
  const std::string value = (counted ? std::to_string(*counted) : "no answer") + ", on PCI " +
                            (is_scanned ? std::to_string(on_pci) : "not read");
  HealthFinding finding = check.failed(value, expected);
  if (is_scanned && on_pci < wanted) {
    finding.severity = {Remedy::reboot, Remedy::rma, false};
    return finding;
  }
  if (counted && *counted < wanted) return finding;
  if ((counted && *counted > wanted) || on_pci > wanted) {  // the profile is of another kind
    finding.severity = cfg;
    finding.fault_class = FaultClass::setup;
    return finding;
  }
  if (!counted) {
    const GpuReading* reading = check.gpu().situation.now.find("count");
    return check.unknown(reading == nullptr ? "the driver does not answer"
                                            : nvml_code_text(reading->rc));
  }
  if (!is_scanned) return check.unknown("no PCI devices could be read");
  finding.status = CheckStatus::pass;
  return finding;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb …": the first word after
// "Module" that begins with a digit and holds a point. Open modules say "for x86_64" before it.
std::string module_version(std::string_view text) {
  std::size_t at = text.find("Module");
  text = text.substr(0, text.find('\n', at == text.npos ? 0 : at));
  while (at < text.size()) {
    at = text.find(' ', at);
    if (at == text.npos) return {};
    at = text.find_first_not_of(' ', at);
    if (at == text.npos) return {};
    const std::string_view word = text.substr(at, text.find(' ', at) - at);
    const bool is_version =
        std::isdigit(static_cast<unsigned char>(word.front())) != 0 && word.find('.') != word.npos;
    if (is_version) return std::string(word);
  }
  return {};
}

GpuOutcome judge_driver_version(GpuCheck& check) {
  const CheckInput& input = check.input();
  const std::string path = "/proc/driver/nvidia/version";
  const auto library = check.gpu().situation.now.text("driver");
  const FileReading& reading = input.files.reading(path);
  if (!library || !reading.ok()) {
    // Where the driver does not even start, gpu.nvml_init says so.
    if (!library && check.gpu().situation.now.find("driver") == nullptr) return std::nullopt;
    return check.unknown(library ? path + ": " + reading.error : "the library reports no version");
  }
  const std::string kernel = module_version(reading.text);
  if (kernel.empty()) return check.unknown(path + ": no version in it");
  return check.judged(kernel == *library, "kernel " + kernel, "library " + std::string(*library));
}

using SaidByGpu = std::vector<std::pair<std::string, std::string>>;

void judge_alike(const GpuCheck& check, const SaidByGpu& told, const CheckSeverity& severity,
                 std::vector<HealthFinding>& findings) {
  const auto usual = said_by_most(std::views::values(told));
  if (!usual) return;
  for (const auto& [device, text] : told) {
    HealthFinding finding = check.judged(text == *usual, text, *usual);
    finding.device = device;
    finding.severity = severity;
    findings.push_back(std::move(finding));
  }
}

// GPUs of one node that differ from most of them: in firmware, or as boards of another model.
void judge_alikeness(const GpuCheck& check, std::vector<HealthFinding>& findings) {
  const GpuReadings& now = check.gpu().situation.now;
  SaidByGpu models;
  SaidByGpu firmware;
  for (const std::string& device : now.devices()) {
    if (const auto name = now.text(device + ".name")) models.emplace_back(device, *name);
    const auto vbios = now.text(device + ".vbios");
    if (!vbios) continue;
    const auto image = now.text(device + ".inforom_image");
    firmware.emplace_back(device, std::string(*vbios) + " / " + std::string(image.value_or("-")));
  }
  const auto model = said_by_most(std::views::values(models));
  const bool is_mixed =
      model && std::ranges::any_of(models, [&](const auto& one) { return one.second != *model; });
  if (is_mixed) judge_alike(check, models, cfg, findings);
  judge_alike(check, firmware, only_warn, findings);
}

bool has_module(std::string_view modules, std::string_view name) {
  return value_in_lines(modules, name, ' ').has_value();
}

GpuOutcome judge_modules(GpuCheck& check) {
  const CheckInput& input = check.input();
  if (input.profile.gpu.count.value_or(0) == 0) return std::nullopt;
  const auto modules = input.files.text(modules_file);
  if (!modules)
    return check.unknown(modules_file + (": " + input.files.reading(modules_file).error));
  const bool is_there = has_module(*modules, "nouveau");
  return check.judged(!is_there, is_there ? "nouveau" : "none", "no nouveau");
}

// Where the profile has the limit `loaded`, 0 or 1.
GpuOutcome judge_peermem(GpuCheck& check) {
  const CheckInput& input = check.input();
  const auto wanted = input.limit_if_any("loaded");
  if (!wanted) return std::nullopt;
  const auto modules = input.files.text(modules_file);
  if (!modules)
    return check.unknown(modules_file + (": " + input.files.reading(modules_file).error));
  const bool is_loaded = has_module(*modules, "nvidia_peermem");
  return check.judged(is_loaded == (*wanted != 0), is_loaded ? "loaded" : "not loaded",
                      *wanted != 0 ? "loaded" : "not loaded");
}

GpuOutcome judge_environment(GpuCheck& check) {
  if (check.gpu().situation.rank_environment == nullptr) return std::nullopt;
  constexpr std::string_view unwanted[] = {"CUDA_INJECTION64_PATH", "NSIGHT_CUDA_DEBUGGER",
                                           "CUDA_ENABLE_COREDUMP_"};
  std::vector<std::string> set;
  for (const auto& [name, value] : *check.gpu().situation.rank_environment) {
    const bool is_unwanted =
        std::ranges::any_of(unwanted, [&](std::string_view one) { return name.starts_with(one); });
    if (is_unwanted && !value.empty()) set.push_back(name);
  }
  return check.judged(set.empty(), set.empty() ? "unset" : joined(set), "unset");
}

std::vector<HealthFinding> judge_versions(const CheckInput& input) {
  std::vector<HealthFinding> findings = on_node<judge_driver_version>(input);
  const GpuView node{input.gpu->situation, {}, {}, {}, {}};
  judge_alikeness(GpuCheck(node, input), findings);
  return findings;
}

std::string why_silent(const GpuReadings* gpus) {
  if (gpus == nullptr) return "it was not queried";
  if (!gpus->calling().empty() && !gpus->is_complete()) return "no answer from " + gpus->calling();
  const GpuReading* init = gpus->find("init");
  return init != nullptr ? nvml_code_text(init->rc) : "it says nothing";
}

void learn_gpus(BaselineNode& node) {
  HealthProfile& profile = node.profile;
  const auto on_pci = static_cast<int>(gpus_on_pci(node.files).size());
  if (!has_answer(node)) {
    if (on_pci == 0)
      profile.gpu.count = 0;
    else
      node.leave_out("gpu",
                     std::to_string(on_pci) +
                         " on the PCI bus, but of the driver's library: " + why_silent(node.gpus));
    return;
  }
  const int count = node.gpus->count();
  profile.gpu.count = count;
  if (count != on_pci && on_pci > 0) {
    node.leave_out("gpu.count", "the driver counts " + std::to_string(count) +
                                    " GPUs, the PCI bus " + std::to_string(on_pci) +
                                    ": is this node healthy?");
  }
  if (count == 0) return;
  profile.required.emplace_back("gpu.count");
  const auto name = same_text(node, "name", "match.gpu_name");
  if (!name || !is_plain_text(*name)) return;
  profile.match_gpu_name = literal_pattern(*name);
  profile.match_gpu_count = count;
}

}  // namespace

std::span<const CheckSpec> gpu_node_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "gpu.nvml_init", .source = "nvmlInit_v2", .says = "0 within 10 s", .severity = reboot,
     .phases = when("PTEF"), .cost = 300'000us, .group = gpu,
     .is_asked = counts_gpus_or_has_driver, .judge = on_node<judge_init>},
    {.id = "gpu.count", .source = "Count_v2, PCI scan", .says = "both as the profile says",
     .severity = reset_then_reboot, .phases = when("PTEF"), .cost = 1ms, .group = gpu,
     .is_certain = [](const HealthProfile& profile) { return profile.gpu.count.has_value(); },
     .is_asked = is_set<&HealthProfile::gpu, &GpuProfile::count>,
     .judge = on_node<judge_count>, .learn = learn_gpus},
    {.id = "gpu.versions",
     .source = "/proc/driver/nvidia/version, SystemGetDriverVersion, VbiosVersion",
     .says = "kernel = library; GPUs alike", .severity = reboot, .fault = setup,
     .phases = when("P"), .cost = 1ms, .group = gpu, .judge = judge_versions},
    {.id = "gpu.modules", .source = "/proc/modules", .says = "no nouveau", .severity = drain,
     .fault = setup, .phases = when("P"), .group = gpu,
     .is_asked = is_set<&HealthProfile::gpu, &GpuProfile::count>,
     .judge = on_node<judge_modules>},
    // Modules do not come and go, and the log tells of an invalid context once.
    {.id = "gpu.peermem", .source = "/proc/modules, kmsg",
     .says = "the profile's, no invalid context", .severity = drain, .fault = setup,
     .believe = event, .phases = when("PT"), .group = gpu,
     .limits = {{"loaded", "", {}, 0, 1, true}}, .judge = on_node<judge_peermem>},
    {.id = "gpu.env", .source = "environment of the ranks",
     .says = "no injected libraries or dumps", .fault = setup, .believe = event,
     .phases = when("P"), .group = gpu, .judge = on_node<judge_environment>},
  };
  // clang-format on
  return all;
}

}  // namespace muster
