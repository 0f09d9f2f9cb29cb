#include "health/checks/kernel/xid_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include "health/model/source_files.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

struct XidRow {
  int first = 0;  // of a range of codes
  int last = 0;
  std::string_view meaning;
  XidVerdict verdict;
};

namespace verdicts {

constexpr XidVerdict ignored{};
// The job's own; the second job that fails so on the same GPU says something of the GPU.
constexpr XidVerdict app{
    XidAction::app, {Remedy::warn, Remedy::drain, false}, FaultClass::user, false};
constexpr XidVerdict app_then_reset{
    XidAction::app, {Remedy::warn, Remedy::reset, false}, FaultClass::user, false};
constexpr XidVerdict app_reset_at_epilog{
    XidAction::app, {Remedy::warn, Remedy::drain, false}, FaultClass::user, true};

constexpr XidVerdict act(CheckSeverity severity, FaultClass fault_class = FaultClass::node) {
  return {XidAction::act, severity, fault_class, false};
}
constexpr XidVerdict warn = act(only_warn);
constexpr XidVerdict warn_reset_at_epilog{XidAction::act, only_warn, FaultClass::node, true};
constexpr XidVerdict drain = act({Remedy::drain, {}, false});
constexpr XidVerdict reset = act({Remedy::reset, {}, false});
constexpr XidVerdict stop_reset = act({Remedy::reset, {}, true});
constexpr XidVerdict stop_reset_reboot = act({Remedy::reset, Remedy::reboot, true});
constexpr XidVerdict stop_reset_rma = act({Remedy::reset, Remedy::rma, true});
constexpr XidVerdict stop_reboot = act({Remedy::reboot, {}, true});
constexpr XidVerdict stop_reboot_rma = act({Remedy::reboot, Remedy::rma, true});

constexpr std::array rows{
    XidRow{8, 8, "the GPU stopped processing", app},
    XidRow{11, 11, "invalid or corrupted push buffer", app},
    XidRow{13, 13, "graphics engine exception", app},
    XidRow{14, 14, "unused", ignored},
    XidRow{25, 25, "invalid or illegal push buffer", app},
    XidRow{31, 31, "memory page fault", app},
    XidRow{32, 32, "invalid or corrupted push buffer (PBDMA)", app_then_reset},
    XidRow{37, 37, "firmware method error", app},
    XidRow{38, 38, "firmware watchdog", app_then_reset},
    XidRow{39, 41, "copy engine error", app_then_reset},
    XidRow{43, 43, "channel reset: the GPU stopped processing", app},
    XidRow{44, 44, "fault in a context switch", app_then_reset},
    XidRow{45, 45, "preemptive removal of channels", ignored},
    XidRow{46, 46, "GPU stopped processing, timeout", stop_reset},
    XidRow{48, 48, "double-bit ECC error", stop_reset_rma},
    XidRow{54, 54, "auxiliary power is not connected", act({Remedy::rma, {}, false})},
    XidRow{56, 58, "display engine or video memory interface", warn},
    XidRow{60, 60, "video processor (SEC2) exception", app},
    XidRow{61, 61, "internal micro-controller breakpoint", reset},
    XidRow{62, 62, "internal micro-controller (PMU) halt", stop_reset_reboot},
    XidRow{63, 63, "row remapping recorded", warn_reset_at_epilog},
    XidRow{64, 64, "row remapping failed", stop_reset},
    XidRow{65, 67, "video processor exception (old)", warn},
    XidRow{68, 68, "video decoder exception", app},
    XidRow{69, 69, "graphics engine class error", app},
    XidRow{70, 72, "copy engine error", app_then_reset},
    XidRow{73, 73, "video encoder exception", warn},
    XidRow{74, 74, "NVLink error", stop_reset},
    XidRow{75, 77, "copy engine error", app_then_reset},
    XidRow{78, 78, "a virtual GPU cannot start",
           act({Remedy::drain, {}, false}, FaultClass::setup)},
    XidRow{79, 79, "the GPU fell off the bus", stop_reboot_rma},
    XidRow{80, 80, "push buffer CRC mismatch", app},
    XidRow{81, 81, "VGA subsystem error", warn},
    XidRow{82, 84, "JPEG or video decoder error", app},
    XidRow{85, 85, "copy engine error", app_then_reset},
    XidRow{86, 86, "optical flow engine error", app},
    XidRow{88, 89, "video decoder error", app},
    XidRow{92, 92, "high rate of single-bit ECC errors", warn},
    XidRow{93, 93, "InfoROM is wearing out", warn},
    XidRow{94, 94, "contained ECC error", app_reset_at_epilog},
    XidRow{95, 95, "uncontained ECC error", stop_reset_rma},
    XidRow{96, 105, "video decoder or JPEG error", app},
    XidRow{106, 107, "test of the management interface", ignored},
    XidRow{108, 108, "NVLink access error of the destination", app},
    XidRow{109, 109, "context switch timeout", stop_reset},
    XidRow{110, 110, "security fault", stop_reset},
    XidRow{119, 119, "GSP call timeout", stop_reset_reboot},
    XidRow{120, 120, "GSP error", stop_reset_reboot},
    XidRow{121, 121, "C2C link error", act({Remedy::warn, Remedy::drain, false})},
    XidRow{126, 135, "copy engine error", app_then_reset},
    XidRow{136, 136, "NVLink training failed", act({Remedy::reset, Remedy::rma, false})},
    XidRow{137, 137, "NVLink fabric access error", app},
    XidRow{139, 139, "optical flow engine error", app},
    XidRow{140, 140, "unrecovered ECC error", stop_reset_rma},
    XidRow{141, 141, "fast path of channel recovery", ignored},
    XidRow{142, 142, "video encoder error", warn},
    XidRow{143, 143, "GPU initialisation failed", act({Remedy::reset, Remedy::rma, false})},
    XidRow{144, 144, "NVLink: SAW error", drain},
    XidRow{145, 145, "NVLink: RLW error", drain},
    XidRow{146, 146, "NVLink: TLW error", drain},
    XidRow{147, 147, "NVLink: TREX error", drain},
    XidRow{148, 148, "NVLink: NVLPW error", drain},
    XidRow{149, 149, "NVLink: NETIR error", drain},
    XidRow{150, 150, "NVLink: MSE error", drain},
    XidRow{151, 151, "key rotation error", act({Remedy::reboot, {}, false})},
    XidRow{152, 153, "deep learning accelerator error", ignored},
    XidRow{154, 154, "the driver's recovery action changed", drain},
    XidRow{155, 155, "NVLink software error", stop_reset},
    XidRow{156, 156, "a resource was retired", warn_reset_at_epilog},
    // A person looks whether it is a case for the vendor.
    XidRow{157, 157, "a resource could not be retired", act({Remedy::drain, Remedy::rma, false})},
    XidRow{158, 158, "fatal timeout", stop_reset},
    XidRow{159, 159, "CHI non-data error", warn},
    XidRow{160, 161, "channel retirement", warn},
    XidRow{162, 166, "power smoothing or confidential NVLink", warn},
    XidRow{167, 167, "fatal PCIe timeout", stop_reboot},
    XidRow{168, 168, "the GPU has less memory", drain},
    XidRow{169, 169, "SEC2 halt", stop_reset},
    XidRow{170, 170, "confidential NVLink interrupt", warn},
    XidRow{171, 171, "double-bit ECC error in DRAM", stop_reset_rma},
    XidRow{172, 172, "double-bit ECC error in SRAM", stop_reset_rma},
    XidRow{173, 173, "fatal C2C error", stop_reboot},
};
static_assert(std::ranges::adjacent_find(rows, [](const XidRow& one, const XidRow& next) {
                return one.last < one.first || next.first <= one.last;
              }) == rows.end());

}  // namespace verdicts

constexpr std::array sxids_log{10001, 10002, 10004, 10005, 11012, 11021, 11022, 11023, 12021,
                               12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065,
                               19068, 19071, 20001, 20009, 20012, 22013, 24001, 24002, 24003};
constexpr std::array sxids_reboot{11004, 12028, 19084};
constexpr std::array sxids_potentially_fatal{
    11001, 11009, 11013, 11018, 11019, 11020, 12001, 12002, 12022, 12024, 12025,
    12026, 12027, 12030, 12031, 12032, 14017, 15001, 15006, 15009, 15010, 15012,
    15013, 19047, 19048, 19054, 19056, 19058, 19060, 19061, 19063, 19064, 19066,
    19067, 19069, 19070, 20034, 22012, 24004, 24005, 24006, 24007};
constexpr std::array sxids_always_fatal{10003, 12020, 22003, 22011};

template <std::size_t size>
bool holds(const std::array<int, size>& codes, int code) {
  return std::ranges::binary_search(codes, code);
}

SxidClass class_by_word(SxidLine::Word word) {
  if (word == SxidLine::Word::fatal) return SxidClass::potentially_fatal;
  return word == SxidLine::Word::nonfatal ? SxidClass::log : SxidClass::unlisted;
}

// Nothing for a code that no row has.
const XidRow* find_xid(int xid) {
  const auto row = std::ranges::lower_bound(verdicts::rows, xid, {}, &XidRow::last);
  return row != verdicts::rows.end() && row->first <= xid ? &*row : nullptr;
}

constexpr std::string_view address_characters = "0123456789abcdefABCDEF:.";
constexpr int code_max = 99999;  // SXids have five digits

std::optional<int> take_code(std::string_view& rest) {
  int code = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), code);
  if (error != std::errc() || code < 0 || code > code_max) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
  return code;
}

// `MARK(PCI:address more): code, rest`
std::optional<XidLine> parse_coded(std::string_view text, std::string_view mark) {
  const std::size_t begin = text.find(mark);
  if (begin == text.npos) return std::nullopt;
  text.remove_prefix(begin + mark.size());
  if (text.starts_with("PCI:")) text.remove_prefix(4);
  const std::size_t close = text.find("): ");
  if (close == text.npos || text.substr(0, close).find(')') != text.npos) return std::nullopt;
  const std::string_view inside = text.substr(0, close);
  const std::string_view address = inside.substr(0, inside.find_first_not_of(address_characters));
  if (address.empty()) return std::nullopt;
  std::string_view rest = text.substr(close + 3);
  const auto code = take_code(rest);
  if (!code) return std::nullopt;
  return XidLine{normal_pci_address(address).value_or(std::string(address.substr(0, 32))), *code,
                 rest};
}

std::vector<std::string_view> tokens_of(std::string_view text) {
  return words_in(text, " ,()[]", 64);
}

// `0x1 (GPU Reset Required)`; drivers of desktops say `PF FLR` and `OS Reboot`.
constexpr std::array<std::pair<std::string_view, DriverAction>, 10> action_words{{
    {"none", DriverAction::none},
    {"gpu reset", DriverAction::gpu_reset},
    {"pf flr", DriverAction::gpu_reset},
    {"node reboot", DriverAction::node_reboot},
    {"os reboot", DriverAction::node_reboot},
    {"drain p2p", DriverAction::drain_p2p},
    {"drain and reset", DriverAction::drain_and_reset},
    {"imex", DriverAction::restart_imex},
    {"bus reset", DriverAction::bus_reset},
    {"system reboot", DriverAction::system_reboot},
}};

std::optional<DriverAction> action_of_words(std::string_view text) {
  const std::string said = lower_case(text.substr(0, 64));
  for (const auto& [words, action] : action_words) {
    if (said.find(words) != said.npos) return action;
  }
  return std::nullopt;
}

DriverAction action_of_number(std::string_view text) {
  const auto number =
      text.starts_with("0x") ? whole_number<std::uint32_t>(text.substr(2), 16) : std::nullopt;
  const bool is_known = number && *number <= static_cast<std::uint32_t>(7);
  return is_known ? static_cast<DriverAction>(*number) : DriverAction::other;
}

}  // namespace

std::string_view xid_meaning(int xid) {
  const XidRow* row = find_xid(xid);
  return row ? row->meaning : "not in the table";
}

XidVerdict verdict_of_xid(int xid) {
  const XidRow* row = find_xid(xid);
  return row ? row->verdict : verdicts::warn;
}

XidVerdict verdict_of_xid(int xid, std::optional<bool> is_fatal) {
  if (xid < 144 || xid > 150 || !is_fatal) return verdict_of_xid(xid);
  return *is_fatal ? verdicts::stop_reset : verdicts::warn;
}

XidVerdict verdict_of(DriverAction action) {
  if (action == DriverAction::none) return verdicts::ignored;
  return verdicts::act(row_of(action).severity, row_of(action).fault_class);
}

std::string_view words_of(DriverAction action) {
  return action == DriverAction::none ? "none" : row_of(action).log_words;
}

SxidClass class_of_sxid(int sxid, SxidLine::Word word) {
  // In two of NVIDIA's lists: the line decides.
  if (sxid == 22012 && word == SxidLine::Word::nonfatal) return SxidClass::log;
  if (holds(sxids_always_fatal, sxid) || (sxid >= 23001 && sxid <= 23017)) {
    return SxidClass::always_fatal;
  }
  if (holds(sxids_reboot, sxid)) return SxidClass::reboot;
  if (holds(sxids_potentially_fatal, sxid)) return SxidClass::potentially_fatal;
  return holds(sxids_log, sxid) ? SxidClass::log : class_by_word(word);
}

CheckSeverity severity_of(SxidClass sxid_class, bool job_died) {
  switch (sxid_class) {
    case SxidClass::reboot:
      return {Remedy::reboot, {}, true};
    case SxidClass::potentially_fatal:
      return job_died ? CheckSeverity{Remedy::reset, {}, true}
                      : CheckSeverity{Remedy::drain, {}, false};
    case SxidClass::always_fatal:
      return {Remedy::reboot, Remedy::rma, true};
    case SxidClass::log:
    case SxidClass::unlisted:
      break;
  }
  return only_warn;
}

std::optional<XidLine> parse_xid(std::string_view text) {
  return parse_coded(text, "NVRM: Xid (");
}

std::optional<bool> is_nvlink_fault_fatal(std::string_view rest) {
  const std::vector<std::string_view> tokens = tokens_of(rest);
  for (std::size_t at = 1; at < tokens.size(); ++at) {
    const std::string word = lower_case(tokens[at]);
    const bool is_fatal = word == "fatal";
    if (!is_fatal && word != "nonfatal" && word != "non-fatal") continue;
    // A process may call itself anything: a unit is written in capitals.
    const bool is_unit = tokens[at - 1].find_first_not_of(
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string_view::npos;
    if (is_unit) return is_fatal;
  }
  return std::nullopt;
}

std::optional<int> parse_nvlink_number(std::string_view rest) {
  const std::vector<std::string_view> tokens = tokens_of(rest);
  for (std::size_t at = 0; at + 1 < tokens.size(); ++at) {
    if (tokens[at] != "link" && tokens[at] != "Link") continue;
    const auto number = whole_number<int>(tokens[at + 1]);
    if (number && *number >= 0) return number;
  }
  return std::nullopt;
}

std::optional<DriverAction> parse_driver_action(std::string_view rest) {
  constexpr std::string_view mark = "recovery action changed from ";
  const std::size_t begin = rest.find(mark);
  if (begin == rest.npos) return std::nullopt;
  rest.remove_prefix(begin + mark.size());
  const std::size_t to = rest.find(" to ");
  if (to == rest.npos) return std::nullopt;
  rest.remove_prefix(to + 4);
  const std::size_t open = rest.find(" (");
  if (open != rest.npos) {
    if (const auto action = action_of_words(rest.substr(open + 2))) return action;
  }
  const std::size_t end = rest.find_first_not_of("x0123456789abcdefABCDEF");
  return action_of_number(rest.substr(0, end));
}

std::optional<SxidLine> parse_sxid(std::string_view text) {
  const auto coded = parse_coded(text, "SXid (");
  if (!coded) return std::nullopt;
  SxidLine line{coded->address, coded->xid, SxidLine::Word::none};
  if (coded->rest.starts_with(", Fatal")) line.word = SxidLine::Word::fatal;
  if (coded->rest.starts_with(", Non-fatal")) line.word = SxidLine::Word::nonfatal;
  return line;
}

}  // namespace muster
