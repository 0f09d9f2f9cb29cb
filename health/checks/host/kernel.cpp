#include "health/checks/host/kernel.h"

#include <sys/timex.h>

#include <array>
#include <cmath>

#include "health/model/judged_check.h"
#include "health/read/probe_calls.h"

namespace muster {

namespace {

constexpr std::string_view tainted = "/proc/sys/kernel/tainted";
constexpr std::string_view adjtimex_probe = "adjtimex:";

// Modules that are proprietary, out of tree or unsigned (0, 12, 13) are expected on a GPU node.
struct TaintBit {
  int bit;
  const char* meaning;
  bool is_hard;
};
constexpr std::array taint_bits{
    TaintBit{4, "machine check (M)", true}, TaintBit{7, "oops (D)", true},
    TaintBit{14, "soft lockup (L)", true}, TaintBit{9, "warning (W)", false}};

constexpr double skew_ms_usual = 50;
constexpr double reboots_per_day_usual = 3;

void judge_synchronised(JudgedCheck& judged, const SourceFiles& files) {
  const FileReading& reading = files.reading(adjtimex_probe);
  const auto status =
      reading.ok() ? probe_number(reading.text, "status") : std::optional<std::int64_t>();
  if (!status) return judged.unreadable(adjtimex_probe, reading);
  judged.require((*status & STA_UNSYNC) == 0,
                 (*status & STA_UNSYNC) == 0 ? "synchronised" : "not synchronised", "synchronised");
}

void judge_offset(JudgedCheck& judged, double offset_ms, double limit_ms) {
  judged.require(std::abs(offset_ms) < limit_ms, std::to_string(std::llround(offset_ms)) + " ms",
                 "< " + std::to_string(std::llround(limit_ms)) + " ms");
}

}  // namespace

std::optional<HealthFinding> judge_taint(const SourceFiles& files, const HealthProfile&) {
  JudgedCheck judged("host.taint");
  const auto bits = files.number(tainted);
  if (!bits || *bits < 0) {
    judged.unreadable(tainted, files.reading(tainted));
    return judged.finding();
  }
  judged.pass(std::to_string(*bits));
  for (const TaintBit& one : taint_bits) {
    if ((*bits >> one.bit & 1) == 0) continue;
    const std::string expected = "bit " + std::to_string(one.bit) + " clear";
    if (one.is_hard) {
      judged.fail(one.meaning, expected);
    } else {
      judged.warn(one.meaning, expected);
    }
  }
  judged.add_evidence("tainted " + std::to_string(*bits));
  return judged.finding();
}

std::optional<HealthFinding> judge_clock(const SourceFiles& files, const HealthProfile& profile,
                                         std::optional<Milliseconds> offset) {
  JudgedCheck judged("host.clock");
  const double limit = limit_of(profile, "host.clock", "skew_ms", skew_ms_usual);
  judge_synchronised(judged, files);
  // What the kernel has still to make up for, as the program says that sets the clock.
  const FileReading& kernel = files.reading(adjtimex_probe);
  const auto pending_us = kernel.ok() ? probe_number(kernel.text, "offset_us") : std::nullopt;
  if (pending_us) judge_offset(judged, static_cast<double>(*pending_us) / 1000, limit);
  if (offset) judge_offset(judged, static_cast<double>(offset->count()), limit);
  return judged.finding();
}

std::optional<HealthFinding> judge_reboots(std::span<const BootSeen> history, Time now,
                                           const HealthProfile& profile) {
  if (history.empty()) return std::nullopt;
  JudgedCheck judged("host.reboots");
  if (history.back().boot_id.empty()) {  // it may be one more
    judged.unknown("the boot's id cannot be read");
    return judged.finding();
  }
  int reboots = 0;
  std::string last;
  for (const BootSeen& boot : history) {
    if (boot.boot_id.empty() || boot.boot_id == last) continue;
    const bool is_first = last.empty();
    last = boot.boot_id;
    if (!is_first && boot.first_seen > now - std::chrono::hours(24)) ++reboots;
  }
  const double limit = limit_of(profile, "host.reboots", "per_day", reboots_per_day_usual);
  judged.require(reboots < limit, std::to_string(reboots),
                 "< " + std::to_string(static_cast<std::int64_t>(limit)) + " in 24 h");
  return judged.finding();
}

}  // namespace muster
