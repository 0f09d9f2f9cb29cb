#include "templates/duration.h"

#include <charconv>
#include <cmath>

#include "templates/spelling.h"

namespace muster {
namespace {

constexpr double longest_ms = 10.0 * 366 * 86400 * 1000;

// Takes a number off the front of `text`; nullopt if there is none.
std::optional<double> take_number(std::string_view& text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// Takes a unit off the front; its length in milliseconds.
std::optional<double> take_unit(std::string_view& text) {
  struct Unit {
    std::string_view name;
    double ms;
  };
  static constexpr Unit units[] = {
      {"ms", 1}, {"d", 86400e3}, {"h", 3600e3}, {"m", 60e3}, {"s", 1e3}};
  for (const Unit& unit : units) {
    if (!text.starts_with(unit.name)) continue;
    text.remove_prefix(unit.name.size());
    return unit.ms;
  }
  return std::nullopt;
}

// ISO 8601 differs from ours by a leading P and a T before the hours.
std::string without_iso_letters(std::string_view text) {
  std::string out = folded(text);
  if (!out.starts_with("p")) return out;
  out.erase(0, 1);
  if (const std::size_t at = out.find('t'); at != std::string::npos) out.erase(at, 1);
  return out;
}

}  // namespace

std::optional<Milliseconds> parse_duration(std::string_view text) {
  const std::string plain = without_iso_letters(text);
  const bool iso = plain.size() != text.size();
  std::string_view rest = plain;
  double total_ms = 0;
  if (rest.empty()) return std::nullopt;
  for (bool first = true; !rest.empty(); first = false) {
    const auto number = take_number(rest);
    if (!number) return std::nullopt;
    const bool bare_seconds = first && !iso && rest.empty();
    const auto unit = bare_seconds ? std::optional<double>(1e3) : take_unit(rest);
    if (!unit) return std::nullopt;
    total_ms += *number * *unit;
    if (!(total_ms <= longest_ms)) return std::nullopt;
  }
  return Milliseconds{std::llround(total_ms)};
}

std::string written_duration(Milliseconds duration) {
  std::int64_t rest = duration.count();
  std::string out;
  const auto take = [&](std::int64_t unit_ms, const char* name) {
    if (rest >= unit_ms) out += std::to_string(rest / unit_ms) + name;
    rest %= unit_ms;
  };
  take(3600000, "h");
  take(60000, "m");
  take(1000, "s");
  take(1, "ms");
  return out.empty() ? "0s" : out;
}

}  // namespace muster
