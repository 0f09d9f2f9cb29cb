// The checks of the node as a whole: driver, number of GPUs, modules, versions.
#include <algorithm>
#include <cctype>
#include <ranges>

#include "health/checks/gpu/gpu_check.h"
#include "health/model/check_words.h"
#include "health/model/driver_action.h"
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

constexpr int code_lost = 15;
constexpr int code_needs_reset = 16;
constexpr std::size_t id_bytes = 4;  // vendor and device; all ones where nothing answers

bool answers_nothing(const SourceFiles& files, const std::string& address) {
  const FileReading& config = files.reading(pci_file(address, "config"));
  return config.ok() && config.text.size() >= id_bytes &&
         std::ranges::all_of(config.text.substr(0, id_bytes), [](char c) { return c == '\xff'; });
}

// The call of the GPU that had the code.
std::optional<std::string> call_with(const GpuView& gpu, int code) {
  const std::string prefix = gpu.device + ".";
  const auto& all = gpu.situation.now.all();
  for (auto at = all.lower_bound(prefix); at != all.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    if (at->second.rc == code) return at->first;
  }
  return std::nullopt;
}

GpuOutcome judge_lost(GpuCheck& check) {
  const GpuView& gpu = check.gpu();
  const std::string expected = "answers";
  const auto lost = call_with(gpu, code_lost);
  if (lost) return check.failed(*lost + ": " + nvml_code_text(code_lost), expected);
  if (!gpu.pci_address.empty() && answers_nothing(gpu.situation.files, gpu.pci_address))
    return check.failed("its configuration space reads as ff", expected);
  if (const auto reset = call_with(gpu, code_needs_reset))
    return check.failed(*reset + ": " + nvml_code_text(code_needs_reset), expected,
                        {Remedy::reset, {}, true});
  if (!check.text("handle")) return check.unread();
  return check.passed("answers", expected);
}

GpuOutcome judge_recovery_action(GpuCheck& check) {
  const auto code = check.number({"field.230"});
  if (!code) return check.unread();
  if (*code == 0) return check.passed("0", "0");
  const DriverActionRow& action =
      row_of(static_cast<DriverAction>(std::min<std::int64_t>(*code, 255)));
  HealthFinding finding =
      check.failed(std::to_string(*code) + " (" + action.words + ")", "0", action.severity);
  finding.fault_class = action.fault_class;
  return finding;
}

GpuOutcome judge_identity(GpuCheck& check) {
  const GpuView& gpu = check.gpu();
  const GpuBefore* before = gpu.situation.before;
  if (before == nullptr || before->readings.count() == 0) return std::nullopt;
  const auto uuid = check.text("uuid");
  const auto address = check.text("bdf");
  if (!uuid || !address) return check.unread();
  const std::string value = *uuid + " at " + kernel_pci_address(*address);
  const auto place_of = [&](const std::string& device) {
    const auto then = before->readings.text(device + ".bdf");
    return then ? kernel_pci_address(*then) : std::string("an unknown place");
  };
  if (!gpu.device_before) return check.failed(value, "a GPU that was there before");
  return check.judged(place_of(*gpu.device_before) == kernel_pci_address(*address), value,
                      *uuid + " at " + place_of(*gpu.device_before));
}

// Rows that the InfoROM can hold as remapped.
constexpr std::int64_t remapped_rows_max = 512;

std::string whole(double number) {
  return std::to_string(static_cast<std::int64_t>(number));
}

GpuOutcome judge_ecc_mode(GpuCheck& check) {
  const auto wanted = check.profile().ecc;
  if (!wanted) return std::nullopt;
  const auto current = check.number({"ecc.current", "field.1"});
  const auto pending = check.number({"ecc.pending", "field.2"});
  if (!current || !pending) return check.unread();
  const std::int64_t expected = *wanted ? 1 : 0;
  return check.judged(*current == expected && *pending == expected,
                      std::to_string(*current) + ", pending " + std::to_string(*pending),
                      std::to_string(expected));
}

void learn_ecc_mode(BaselineNode& node) {
  node.profile.gpu.ecc = same_flag(node, "ecc.current", "gpu.ecc");
}

GpuOutcome judge_double_bits(GpuCheck& check) {
  const auto since_load = check.growth({"field.4", "ecc.unc.volatile"});
  const auto since_made = check.growth({"field.6", "ecc.unc.aggregate"});
  if (!since_load && !since_made) return check.unread();
  const std::int64_t grown = std::max(since_load.value_or(0), since_made.value_or(0));
  return check.judged(grown == 0, std::to_string(grown), "0");
}

GpuOutcome judge_corrected(GpuCheck& check) {
  const auto dram = check.number({"ecc.dram.cor.aggregate", "ecc.dram.cor.volatile"});
  const auto sram = check.number({"ecc.sram.cor.aggregate", "ecc.sram.cor.volatile"});
  if (!dram && !sram) return check.unread();
  const double dram_max = check.limit("dram_max");
  const double sram_max = check.limit("sram_max");
  const auto dram_count = static_cast<double>(dram.value_or(0));
  const auto sram_count = static_cast<double>(sram.value_or(0));
  return check.judged(dram_count <= dram_max && sram_count <= sram_max,
                      "DRAM " + whole(dram_count) + ", SRAM " + whole(sram_count),
                      "DRAM <= " + whole(dram_max) + ", SRAM <= " + whole(sram_max));
}

GpuOutcome judge_sram(GpuCheck& check) {
  const auto exceeded = check.number({"sram.exceeded"});
  if (!exceeded) return check.unread();
  if (*exceeded != 0)
    return check.failed("threshold exceeded", "not exceeded", {Remedy::rma, {}, false});
  const auto parity = check.growth({"sram.parity.aggregate"});
  const auto secded = check.growth({"sram.secded.aggregate"});
  const std::int64_t grown = parity.value_or(0) + secded.value_or(0);
  return check.judged(grown == 0, std::to_string(grown) + " more", "0 more, not exceeded");
}

GpuOutcome judge_zero(GpuCheck& check, std::initializer_list<std::string_view> keys) {
  const auto value = check.number(keys);
  if (!value) return check.unread();
  return check.judged(*value == 0, std::to_string(*value), "0");
}

GpuOutcome judge_remap_failure(GpuCheck& check) {
  return judge_zero(check, {"remap.failure", "field.145"});
}
GpuOutcome judge_remap_pending(GpuCheck& check) {
  return judge_zero(check, {"remap.pending", "field.144"});
}
GpuOutcome judge_unrepairable(GpuCheck& check) {
  return judge_zero(check, {"unrepairable"});
}

GpuOutcome judge_remap_count(GpuCheck& check) {
  const auto rows = check.number({"remap.unc", "field.143"});
  if (!rows) return check.unread();
  const std::string expected = "< " + std::to_string(remapped_rows_max) + ", banks have spares";
  if (*rows >= remapped_rows_max) return check.failed(std::to_string(*rows), expected);
  const auto none = check.number({"remap.banks.none"});
  const auto low = check.number({"remap.banks.low"});
  const std::string value = std::to_string(*rows) + ", banks without spares " +
                            std::to_string(none.value_or(0)) + ", with few " +
                            std::to_string(low.value_or(0));
  const double low_max = check.limit("low_banks_max");
  if (none.value_or(0) > 0 || static_cast<double>(low.value_or(0)) > low_max)
    return check.failed(value, expected, only_warn);
  return check.passed(value, expected);
}

GpuOutcome judge_retired_pages(GpuCheck& check) {
  const auto single = check.number({"retired.sbe", "field.29"});
  const auto twice = check.number({"retired.dbe", "field.30"});
  if (!single || !twice) return check.unread();
  const std::int64_t pages = *single + *twice;
  const double most = check.limit("pages_max");
  if (static_cast<double>(pages) > most)
    return check.failed(std::to_string(pages), "<= " + whole(most));
  const auto pending = check.number({"retired.pending", "field.31"});
  if (!pending) return check.unread();
  if (*pending != 0)
    return check.failed("pages wait for a reset", "none", {Remedy::reset, {}, false});
  return check.passed(std::to_string(pages), "<= " + whole(most));
}

GpuOutcome judge_repair_pending(GpuCheck& check) {
  const auto channel = check.number({"repair.channel"});
  const auto tpc = check.number({"repair.tpc"});
  if (!channel || !tpc) return check.unread();
  return check.judged(*channel == 0 && *tpc == 0,
                      "channel " + std::to_string(*channel) + ", TPC " + std::to_string(*tpc),
                      "channel 0, TPC 0");
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
    {.id = "gpu.lost", .source = "all calls, B/config",
     .says = "no code 15 or 16, config not all ff", .severity = stop_reboot_then_rma,
     .believe = event, .phases = when("PTEF"), .group = gpu, .is_certain = said_by_hardware,
     .judge = on_each_gpu<judge_lost>},
    {.id = "gpu.recovery_action", .source = "field 230", .says = "0", .severity = stop_reset,
     .believe = event, .phases = when("PTEF"), .cost = 1ms, .group = gpu,
     .is_certain = said_by_hardware, .judge = on_each_gpu<judge_recovery_action>},
    {.id = "gpu.identity", .source = "UUID, Serial, PciInfo_v3", .says = "as before",
     .believe = event, .phases = when("P"), .cost = 1ms, .group = gpu,
     .judge = on_each_gpu<judge_identity>},
    {.id = "gpu.ecc_mode", .source = "EccMode", .says = "current = pending = as the profile says",
     .severity = reboot, .fault = setup, .phases = when("P"), .group = gpu,
     .is_asked = is_set<&HealthProfile::gpu, &GpuProfile::ecc>,
     .judge = on_each_gpu<judge_ecc_mode>, .learn = learn_ecc_mode},
    {.id = "gpu.ecc_dbe", .source = "fields 4, 6, TotalEccErrors", .says = "no growth",
     .severity = stop_reset_then_rma, .believe = delta, .phases = when("PTEF"), .group = gpu,
     .is_certain = said_by_hardware, .judge = on_each_gpu<judge_double_bits>},
    // The limits are those from which a large provider's checks warn.
    {.id = "gpu.ecc_sbe", .source = "MemoryErrorCounter", .says = "DRAM <= 20000000, SRAM <= 10000",
     .phases = when("T"), .group = gpu,
     .limits = {{"dram_max", "errors", 20'000'000}, {"sram_max", "errors", 10'000}},
     .judge = on_each_gpu<judge_corrected>},
    {.id = "gpu.sram_unc", .source = "SramEccErrorStatus",
     .says = "threshold not exceeded, no growth", .severity = reset, .believe = delta,
     .phases = when("PTE"), .group = gpu, .is_certain = said_by_hardware,
     .judge = on_each_gpu<judge_sram>},
    {.id = "gpu.remap_failure", .source = "RemappedRows, field 145", .says = "0", .severity = rma,
     .phases = when("PTE"), .group = gpu, .is_certain = said_by_hardware,
     .judge = on_each_gpu<judge_remap_failure>},
    {.id = "gpu.remap_pending", .source = "RemappedRows, field 144", .says = "0", .severity = reset,
     .phases = when("PE"), .group = gpu, .judge = on_each_gpu<judge_remap_pending>},
    // Banks with few spares, of a few hundred to a few thousand; no public number.
    {.id = "gpu.remap_count", .source = "field 143, RowRemapperHistogram",
     .says = "< 512, banks have spares", .severity = rma, .phases = when("T"), .group = gpu,
     .limits = {{"low_banks_max", "banks", 16}}, .judge = on_each_gpu<judge_remap_count>},
    // The InfoROM can hold 64 as retired.
    {.id = "gpu.retired_pages", .source = "RetiredPages_v2, fields 29-31",
     .says = "<= 63, none pending", .severity = rma, .phases = when("P"), .cost = 1ms, .group = gpu,
     .limits = {{"pages_max", "pages", 63}}, .judge = on_each_gpu<judge_retired_pages>},
    {.id = "gpu.unrepairable", .source = "UnrepairableMemoryFlag_v1", .says = "0", .severity = rma,
     .phases = when("T"), .group = gpu, .is_certain = said_by_hardware,
     .judge = on_each_gpu<judge_unrepairable>},
    {.id = "gpu.repair_pending", .source = "RepairStatus", .says = "none", .severity = reset,
     .phases = when("E"), .group = gpu, .judge = on_each_gpu<judge_repair_pending>},
  };
  // clang-format on
  return all;
}

}  // namespace muster
