#include "cli/time_text.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace muster {

namespace {

template <class... Numbers>
std::string format(const char* form, Numbers... numbers) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), form, numbers...);
  return text.data();
}

}  // namespace

Time wall_clock_now() {
  return std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now());
}

std::string elapsed_text(Milliseconds duration) {
  const long long ms = duration.count() < 0 ? 0 : duration.count();
  const long long seconds = ms / 1000;
  if (ms < 10000) return format("%.1fs", static_cast<double>(ms) / 1000.0);
  if (seconds < 60) return format("%llds", seconds);
  if (seconds < 3600) return format("%lldm %02llds", seconds / 60, seconds % 60);
  if (seconds < 86400) return format("%lldh %02lldm", seconds / 3600, seconds / 60 % 60);
  return format("%lldd %02lldh", seconds / 86400, seconds / 3600 % 24);
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
  return text.data() + format(".%03dZ", static_cast<int>(ms % 1000));
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
  return unit == 0 ? format("%.0f B", amount) : format("%.1f %s", amount, units.at(unit));
}

std::string count_text(double count) {
  if (count >= 1e9) return format("%.2fG", count / 1e9);
  if (count >= 1e6) return format("%.2fM", count / 1e6);
  if (count >= 1e4) return format("%.1fk", count / 1e3);
  return format("%.0f", count);
}

}  // namespace muster
