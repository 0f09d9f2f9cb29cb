// The checks of the node as a whole: driver, number of GPUs, modules, versions.
#include <algorithm>
#include <cctype>

#include "health/checks/gpu/gpu_check.h"
#include "health/checks/gpu/sources.h"

namespace muster {

namespace {

constexpr int code_driver_not_loaded = 9;
constexpr int code_interrupts = 11;
constexpr int code_no_library = 12;
constexpr int code_versions_differ = 18;

constexpr CheckSeverity cfg{Remedy::drain, {}, false};

HealthFinding outcome(std::string_view id, CheckStatus status, std::string value,
                      std::string expected) {
  HealthFinding finding = make_finding(id, "", status);
  finding.value = std::move(value);
  finding.expected = std::move(expected);
  return finding;
}

HealthFinding judged(std::string_view id, bool is_fine, std::string value, std::string expected) {
  return outcome(id, is_fine ? CheckStatus::pass : CheckStatus::fail, std::move(value),
                 std::move(expected));
}

HealthFinding unknown(std::string_view id, std::string why) {
  HealthFinding finding = make_finding(id, "", CheckStatus::unknown);
  finding.evidence.push_back(std::move(why));
  return finding;
}

GpuOutcome judge_init(const GpuSituation& situation) {
  const std::string_view id = "gpu.nvml_init";
  const GpuReading* init = situation.now.find("init");
  if (init == nullptr) {
    if (!situation.now.stopped().empty()) return unknown(id, situation.now.stopped());
    if (situation.now.calling() != "nvmlInit") return unknown(id, "the driver was not asked");
    return outcome(id, CheckStatus::fail, "no answer", "0");
  }
  if (init->rc == 0) return outcome(id, CheckStatus::pass, "0", "0");
  HealthFinding finding = outcome(id, CheckStatus::fail, nvml_code_text(init->rc), "0");
  switch (init->rc) {
    case code_driver_not_loaded:
    case code_no_library:
      finding.severity = cfg;
      finding.fault_class = FaultClass::setup;
      return finding;
    case code_versions_differ:
      finding.fault_class = FaultClass::setup;
      return finding;
    case code_interrupts:
      return finding;
    default:
      return unknown(id, nvml_code_text(init->rc));
  }
}

GpuOutcome judge_count(const GpuSituation& situation) {
  if (!situation.profile.gpu.count) return std::nullopt;
  const std::string_view id = "gpu.count";
  const int wanted = *situation.profile.gpu.count;
  const std::string expected = std::to_string(wanted);
  const auto on_pci = static_cast<int>(gpus_on_pci(situation.files).size());
  const bool is_scanned = !situation.files.names_below("/sys/bus/pci/devices").empty();
  const auto counted = situation.now.number("count");
  const std::string value = (counted ? std::to_string(*counted) : "no answer") + ", on PCI " +
                            (is_scanned ? std::to_string(on_pci) : "not read");
  HealthFinding finding = outcome(id, CheckStatus::fail, value, expected);
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
    const GpuReading* reading = situation.now.find("count");
    return unknown(id,
                   reading == nullptr ? "the driver does not answer" : nvml_code_text(reading->rc));
  }
  if (!is_scanned) return unknown(id, "no PCI devices could be read");
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

GpuOutcome judge_driver_version(const GpuSituation& situation) {
  const std::string_view id = "gpu.versions";
  const std::string path = "/proc/driver/nvidia/version";
  const auto library = situation.now.text("driver");
  const FileReading& reading = situation.files.reading(path);
  if (!library || !reading.ok()) {
    // Where the driver does not even start, gpu.nvml_init says so.
    if (!library && situation.now.find("driver") == nullptr) return std::nullopt;
    return unknown(id, library ? path + ": " + reading.error : "the library tells no version");
  }
  const std::string kernel = module_version(reading.text);
  if (kernel.empty()) return unknown(id, path + ": no version in it");
  return judged(id, kernel == *library, "kernel " + kernel, "library " + std::string(*library));
}

// Two against two is no majority.
std::optional<std::string> said_by_most(const std::map<int, std::string>& told) {
  std::map<std::string, std::size_t> seen;
  for (const auto& [index, text] : told) ++seen[text];
  for (const auto& [text, count] : seen) {
    if (count * 2 > told.size()) return text;
  }
  return std::nullopt;
}

void judge_alike(const std::map<int, std::string>& told, const CheckSeverity& severity,
                 std::vector<HealthFinding>& findings) {
  const auto usual = said_by_most(told);
  if (!usual) return;
  for (const auto& [index, text] : told) {
    HealthFinding finding = judged("gpu.versions", text == *usual, text, *usual);
    finding.device = "gpu" + std::to_string(index);
    finding.severity = severity;
    findings.push_back(std::move(finding));
  }
}

// GPUs of one node that differ from most of them: in firmware, or as boards of another model.
void judge_alikeness(const GpuSituation& situation, std::vector<HealthFinding>& findings) {
  std::map<int, std::string> models;
  std::map<int, std::string> firmware;
  for (int index = 0; index < situation.now.count(); ++index) {
    const std::string device = "gpu" + std::to_string(index);
    if (const auto name = situation.now.text(device + ".name")) models[index] = *name;
    const auto vbios = situation.now.text(device + ".vbios");
    if (!vbios) continue;
    const auto image = situation.now.text(device + ".inforom_image");
    firmware[index] = std::string(*vbios) + " / " + std::string(image.value_or("-"));
  }
  const auto model = said_by_most(models);
  const bool is_mixed = model && std::ranges::any_of(models, [&](const auto& one) {
                          return one.second != *model;
                        });
  if (is_mixed) judge_alike(models, cfg, findings);
  judge_alike(firmware, only_warn, findings);
}

bool has_module(std::string_view modules, std::string_view name) {
  while (!modules.empty()) {
    const std::string_view line = modules.substr(0, modules.find('\n'));
    modules.remove_prefix(std::min(modules.size(), line.size() + 1));
    if (line.starts_with(name) && line.substr(name.size(), 1) == " ") return true;
  }
  return false;
}

GpuOutcome judge_modules(const GpuSituation& situation) {
  if (situation.profile.gpu.count.value_or(0) == 0) return std::nullopt;
  const auto modules = situation.files.text("/proc/modules");
  if (!modules)
    return unknown("gpu.modules",
                   "/proc/modules: " + situation.files.reading("/proc/modules").error);
  const bool is_there = has_module(*modules, "nouveau");
  return judged("gpu.modules", !is_there, is_there ? "nouveau" : "none", "no nouveau");
}

// Where the profile has the limit `loaded`, 0 or 1.
GpuOutcome judge_peermem(const GpuSituation& situation) {
  const auto limits = setting_of(situation.profile, "gpu.peermem").limits;
  const auto wanted = limits.find("loaded");
  if (wanted == limits.end()) return std::nullopt;
  const auto modules = situation.files.text("/proc/modules");
  if (!modules)
    return unknown("gpu.peermem",
                   "/proc/modules: " + situation.files.reading("/proc/modules").error);
  const bool is_loaded = has_module(*modules, "nvidia_peermem");
  return judged("gpu.peermem", is_loaded == (wanted->second != 0),
                is_loaded ? "loaded" : "not loaded", wanted->second != 0 ? "loaded" : "not loaded");
}

GpuOutcome judge_environment(const GpuSituation& situation) {
  if (situation.rank_environment == nullptr) return std::nullopt;
  constexpr std::string_view unwanted[] = {"CUDA_INJECTION64_PATH", "NSIGHT_CUDA_DEBUGGER",
                                           "CUDA_ENABLE_COREDUMP_"};
  std::string set;
  for (const auto& [name, value] : *situation.rank_environment) {
    const bool is_unwanted =
        std::ranges::any_of(unwanted, [&](std::string_view one) { return name.starts_with(one); });
    if (is_unwanted && !value.empty()) set += (set.empty() ? "" : ", ") + name;
  }
  return judged("gpu.env", set.empty(), set.empty() ? "unset" : set, "unset");
}

using NodeJudge = GpuOutcome (*)(const GpuSituation&);
constexpr NodeJudge node_judges[] = {judge_init,    judge_count,   judge_driver_version,
                                     judge_modules, judge_peermem, judge_environment};

}  // namespace

void judge_gpu_node(const GpuSituation& situation, std::vector<HealthFinding>& findings) {
  for (const NodeJudge judge : node_judges) {
    if (auto finding = judge(situation)) findings.push_back(std::move(*finding));
  }
  judge_alikeness(situation, findings);
}

}  // namespace muster
