#include "scheduler/text/duration.h"

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>

#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"

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

Time wall_clock_now() {
  return std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now());
}

std::string elapsed_text(Milliseconds duration) {
  const long long ms = duration.count() < 0 ? 0 : duration.count();
  const long long seconds = ms / 1000;
  if (ms < 10000) return printed("%.1fs", static_cast<double>(ms) / 1000.0);
  if (seconds < 60) return printed("%llds", seconds);
  if (seconds < 3600) return printed("%lldm %02llds", seconds / 60, seconds % 60);
  if (seconds < 86400) return printed("%lldh %02lldm", seconds / 3600, seconds / 60 % 60);
  return printed("%lldd %02lldh", seconds / 86400, seconds / 3600 % 24);
}

std::string ago_text(Time time, Time now) {
  if (time > now) return "in " + elapsed_text(time - now);
  return elapsed_text(now - time) + " ago";
}

std::string utc_text(Time time) {
  const std::int64_t ms = to_ms(time);
  const std::time_t seconds = ms / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return text.data() + printed(".%03dZ", static_cast<int>(ms % 1000));
}

std::string local_text(Time time) {
  const std::time_t seconds = to_ms(time) / 1000;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (amount >= 1024 && unit + 1 < units.size()) {
    amount /= 1024;
    ++unit;
  }
  return unit == 0 ? printed("%.0f B", amount) : printed("%.1f %s", amount, units.at(unit));
}

std::string count_text(double count) {
  if (count >= 1e9) return printed("%.2fG", count / 1e9);
  if (count >= 1e6) return printed("%.2fM", count / 1e6);
  if (count >= 1e4) return printed("%.1fk", count / 1e3);
  return printed("%.0f", count);
}

}  // namespace muster
