#include "health/checks/infiniband/port_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "health/model/source_files.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

std::optional<double> positive_decimal(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const bool is_number = error == std::errc() && stop == end && std::isfinite(value) && value > 0;
  return is_number ? std::optional(value) : std::nullopt;
}

bool is_printable(char c) {
  return c >= ' ' && c <= '~';
}

bool is_default_route(const std::vector<std::string_view>& words) {
  constexpr unsigned route_is_up = 0x1;
  constexpr unsigned route_rejects = 0x200;
  if (words.size() < 8 || words[1] != "00000000" || words[7] != "00000000") return false;
  const auto flags = whole_number<unsigned>(words[3], 16);
  return flags && (*flags & route_is_up) != 0 && (*flags & route_rejects) == 0;
}

}  // namespace

std::optional<NumberedState> parse_numbered_state(std::string_view text) {
  text = trimmed(text);
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.size() > 64) return std::nullopt;
  const auto number = whole_number<int>(text.substr(0, colon));
  const std::string_view word = trimmed(text.substr(colon + 1));
  if (!number || *number < 0 || word.empty()) return std::nullopt;
  if (!std::ranges::all_of(word, is_printable)) return std::nullopt;
  return NumberedState{*number, std::string(word)};
}

std::optional<int> parse_lanes(std::string_view text) {
  if (!text.ends_with('X')) return std::nullopt;
  const auto lanes = whole_number<int>(text.substr(0, text.size() - 1));
  return lanes && *lanes > 0 ? lanes : std::nullopt;
}

std::optional<LinkRate> parse_link_rate(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 64) return std::nullopt;
  const auto words = words_in(text);
  if (words.size() < 3 || words.size() > 4 || words[1] != "Gb/sec") return std::nullopt;
  if (!words[2].starts_with('(') || !words.back().ends_with(')')) return std::nullopt;
  std::string_view width = words[2].substr(1);
  std::string_view speed = words.size() == 4 ? words[3] : std::string_view();
  (speed.empty() ? width : speed).remove_suffix(1);
  const auto gbps = positive_decimal(words[0]);
  const auto lanes = parse_lanes(width);
  if (!gbps || !lanes || !std::ranges::all_of(speed, is_printable)) return std::nullopt;
  return LinkRate{*gbps, *lanes, std::string(speed)};
}

std::optional<double> parse_gt_per_s(std::string_view text) {
  const auto words = words_in(trimmed(text).substr(0, 64));
  if (words.size() < 2 || words[1] != "GT/s") return std::nullopt;
  return positive_decimal(words[0]);
}

std::optional<std::uint64_t> parse_counter(std::string_view text) {
  return whole_number<std::uint64_t>(trimmed(text));
}

std::optional<PartitionKey> parse_partition_key(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with("0x")) return std::nullopt;
  const auto key = whole_number<std::uint16_t>(text.substr(2), 16);
  if (!key) return std::nullopt;
  return PartitionKey{*key & 0x7fff, (*key & 0x8000) != 0};
}

std::optional<std::uint64_t> parse_global_id(std::string_view text) {
  text = trimmed(text);
  constexpr std::size_t length = 39;  // eight groups of four digits
  if (text.size() != length) return std::nullopt;
  std::uint64_t id = 0;
  for (std::size_t group = 0; group < 8; ++group) {
    const std::size_t at = group * 5;
    if (group > 0 && text[at - 1] != ':') return std::nullopt;
    const auto digits = whole_number<std::uint16_t>(text.substr(at, 4), 16);
    if (!digits) return std::nullopt;
    id = id << 16 | *digits;
  }
  return id;
}

std::set<std::string> parse_default_interfaces(std::string_view route) {
  std::set<std::string> interfaces;
  while (!route.empty()) {
    const auto words = words_in(take_until(route, '\n').substr(0, 256));
    if (is_default_route(words)) interfaces.emplace(words.front());
  }
  return interfaces;
}

std::string shown_text(std::string_view text) {
  constexpr std::size_t most = 60;
  text = trimmed(text);
  std::string form = "'";
  for (const char c : text.substr(0, most)) form += is_printable(c) ? c : '?';
  return form + (text.size() > most ? "…'" : "'");
}

}  // namespace muster
