#include <sys/timex.h>

#include <array>
#include <cmath>

#include "health/checks/host/host_checks.h"
#include "health/model/check_words.h"
#include "health/model/judged_check.h"
#include "health/read/files.h"

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

void judge_synchronised(JudgedCheck& judged, const SourceFiles& files) {
  const FileReading& reading = files.reading(adjtimex_probe);
  const auto status = probe_number(reading.text, "status");
  if (!status) return judged.unreadable(adjtimex_probe, reading);
  judged.require((*status & STA_UNSYNC) == 0,
                 (*status & STA_UNSYNC) == 0 ? "synchronised" : "not synchronised", "synchronised");
}

void judge_offset(JudgedCheck& judged, double offset_ms, double limit_ms) {
  judged.require(std::abs(offset_ms) < limit_ms, std::to_string(std::llround(offset_ms)) + " ms",
                 "< " + std::to_string(std::llround(limit_ms)) + " ms");
}

void judge_taint(JudgedCheck& judged, const CheckInput& input) {
  const auto bits = input.files.number(tainted);
  if (!bits || *bits < 0) return judged.unreadable(tainted, input.files.reading(tainted));
  judged.pass(std::to_string(*bits));
  for (const TaintBit& one : taint_bits) {
    if ((*bits >> one.bit & 1) == 0) continue;
    const std::string expected = "bit " + std::to_string(one.bit) + " clear";
    one.is_hard ? judged.fail(one.meaning, expected) : judged.warn(one.meaning, expected);
  }
  judged.add_evidence("tainted " + std::to_string(*bits));
}

void judge_clock(JudgedCheck& judged, const CheckInput& input) {
  const double limit = input.limit("skew_ms");
  judge_synchronised(judged, input.files);
  // What the kernel has still to make up for, as the program says that sets the clock.
  const auto pending_us = probe_number(input.files.reading(adjtimex_probe).text, "offset_us");
  if (pending_us) judge_offset(judged, static_cast<double>(*pending_us) / 1000, limit);
  const auto offset = input.host->clock_offset;
  if (offset) judge_offset(judged, static_cast<double>(offset->count()), limit);
}

void judge_reboots(JudgedCheck& judged, const CheckInput& input) {
  const auto& history = input.host->boots;
  if (history.empty()) return;
  // It may be one more.
  if (history.back().boot_id.empty()) return judged.unknown("the boot's id cannot be read");
  int reboots = 0;
  std::string last;
  for (const BootSeen& boot : history) {
    if (boot.boot_id.empty() || boot.boot_id == last) continue;
    const bool is_first = last.empty();
    last = boot.boot_id;
    if (!is_first && boot.first_seen > input.host->now - std::chrono::hours(24)) ++reboots;
  }
  const double limit = input.limit("per_day");
  judged.require(reboots < limit, std::to_string(reboots),
                 "< " + std::to_string(static_cast<std::int64_t>(limit)) + " in 24 h");
}

}  // namespace

std::span<const CheckSpec> kernel_state_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "host.clock", .source = "adjtimex",
     .says = "synchronised, less than 50 ms from the controller's", .phases = when("P"),
     .group = host, .reads = {adjtimex_probe}, .limits = {{"skew_ms", "ms", 50}},
     .judge = in_one_finding<judge_clock>},
    {.id = "host.taint", .source = tainted, .says = "no machine check, oops, lockup or warning",
     .severity = reboot, .believe = event, .phases = when("PT"), .group = host, .reads = {tainted},
     .judge = in_one_finding<judge_taint>},
    {.id = "host.reboots", .source = "/proc/sys/kernel/random/boot_id",
     .says = "fewer than 3 in 24 h", .severity = rma, .believe = event, .phases = when("P"),
     .group = host, .reads = {"/proc/sys/kernel/random/boot_id"},
     .limits = {{"per_day", "1/day", 3}}, .judge = in_one_finding<judge_reboots>},
  };
  // clang-format on
  return all;
}

}  // namespace muster
