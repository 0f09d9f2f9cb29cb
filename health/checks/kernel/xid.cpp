#include "health/checks/kernel/xid.h"

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
