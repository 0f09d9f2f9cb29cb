#include <algorithm>
#include <cmath>

#include "health/checks/host/host_checks.h"
#include "health/model/check_words.h"
#include "health/model/judged_check.h"

namespace muster {

namespace {

constexpr std::string_view controllers = "/sys/devices/system/edac/mc";

std::optional<std::int64_t> count_of(const SourceFiles& files, const std::string& path) {
  const auto number = files.number(path);
  return number && *number >= 0 ? number : std::nullopt;
}

// Of a shorter time the whole day's are allowed: a sample each minute would else make one error
// 1440 a day.
double allowed_of(Milliseconds elapsed, double per_day) {
  const double days = static_cast<double>(elapsed.count()) / 86'400'000;
  return std::floor(per_day * std::max(1.0, days));
}

void judge_controller(JudgedCheck& judged, const EdacCounts& before, const EdacCounts& now,
                      double allowed) {
  if (counts_anew(before, now)) return;
  if (!now.uncorrected) judged.unknown("ue_count could not be read");
  if (now.uncorrected && before.uncorrected) {
    const std::int64_t grew = *now.uncorrected - *before.uncorrected;
    judged.require(grew == 0, std::to_string(grew) + " uncorrected", "0");
  }
  if (!now.corrected) return judged.unknown("ce_count could not be read");
  if (!before.corrected) return;
  const std::int64_t grew = *now.corrected - *before.corrected;
  const std::string value = std::to_string(grew) + " corrected";
  if (static_cast<double>(grew) <= allowed) return judged.pass(value);
  judged.warn(value, "<= " + std::to_string(static_cast<std::int64_t>(allowed)));
}

std::string why_unknown(const EdacSample& now, const CheckInput& input) {
  if (!now.error.empty()) return std::string(controllers) + ": " + now.error;
  if (now.boot_id.empty()) return "the boot id could not be read";
  const bool is_missed = now.by_controller.empty() && is_named_by(input.profile, input.check().id);
  return is_missed ? std::string(controllers) + ": the kernel knows no memory controller" : "";
}

// One finding for each controller. One of which there is no earlier sample since the node started,
// or whose counters fell, is not judged: the sample is where the next one starts from.
std::vector<HealthFinding> judge_edac(const CheckInput& input) {
  const EdacSample& before = input.host->edac_before;
  const EdacSample now = edac_sample_of(input.files, input.host->now);
  std::vector<HealthFinding> findings;
  if (const std::string why = why_unknown(now, input); !why.empty()) {
    JudgedCheck judged(input.check());
    judged.unknown(why);
    judged.add_to(findings);
  }
  if (before.boot_id != now.boot_id || now.at < before.at) return findings;
  const double allowed = allowed_of(now.at - before.at, input.limit("ce_per_day"));
  for (const auto& [name, counts] : now.by_controller) {
    const auto earlier = before.by_controller.find(name);
    if (earlier == before.by_controller.end()) continue;
    JudgedCheck judged(input.check(), name);
    judged.set_source(std::string(controllers) + "/" + name);
    judge_controller(judged, earlier->second, counts, allowed);
    judged.add_to(findings);
  }
  return findings;
}

}  // namespace

bool counts_anew(const EdacCounts& before, const EdacCounts& now) {
  const auto has_fallen = [&](auto count) {
    return before.*count && now.*count && *(now.*count) < *(before.*count);
  };
  return has_fallen(&EdacCounts::uncorrected) || has_fallen(&EdacCounts::corrected);
}

EdacSample edac_sample_of(const SourceFiles& files, Time at) {
  EdacSample sample;
  sample.boot_id = boot_id_of(files);
  sample.at = at;
  const FileReading& listing = files.reading(controllers);
  // No driver for its memory controllers, as on most virtual machines: there are none to judge.
  if (!listing.is_missing) sample.error = listing.error;
  for (const std::string& name : files.names_below(controllers)) {
    const std::string folder = std::string(controllers) + "/" + name;
    sample.by_controller[name] = {count_of(files, folder + "/ue_count"),
                                  count_of(files, folder + "/ce_count")};
  }
  return sample;
}

std::span<const CheckSpec> edac_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    // A memory module that wears out shows more corrected errors; single ones come from space. They
    // only warn.
    {.id = "host.edac",
     .source = "/sys/devices/system/edac/mc/mc*/{ue,ce}_count; kmsg Hardware Error",
     .says = "no new uncorrected error, at most 9 corrected ones a day",
     .severity = stop_reboot_then_rma, .believe = delta, .phases = when("TE"), .group = host,
     .reads = {"/proc/sys/kernel/random/boot_id", "/sys/devices/system/edac/mc/mc*/ue_count",
               "/sys/devices/system/edac/mc/mc*/ce_count"}, .limits = {{"ce_per_day", "1/day", 9}},
     .is_certain = said_by_hardware, .judge = judge_edac},
  };
  // clang-format on
  return all;
}

}  // namespace muster
