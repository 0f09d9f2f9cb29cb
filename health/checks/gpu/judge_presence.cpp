// Whether a GPU is there, is the same as before, and what the driver wants done to it.
#include <algorithm>

#include "health/checks/gpu/gpu_check.h"
#include "health/checks/gpu/sources.h"
#include "health/model/check_words.h"
#include "health/model/driver_action.h"

namespace muster {

namespace {

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

}  // namespace

std::span<const CheckSpec> gpu_presence_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
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
  };
  // clang-format on
  return all;
}

}  // namespace muster
