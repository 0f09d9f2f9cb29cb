#include "health/host/bmc_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "scheduler/text/text.h"

namespace muster {

namespace {

// Of a healthy controller: 65,535 records at most, of which one has room for some thousands.
constexpr std::size_t lines_max = 65'536;
constexpr std::size_t line_max = 512;

std::optional<int> number(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  const bool is_whole = error == std::errc() && at == end && !text.starts_with('-');
  return is_whole ? std::optional(value) : std::nullopt;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

// Three numbers with separators between them.
std::optional<std::array<int, 3>> three(std::string_view text, char separator) {
  const auto parts = split(text, separator);
  if (parts.size() != 3) return std::nullopt;
  std::array<int, 3> numbers{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto one = number(parts[i]);
    if (!one) return std::nullopt;
    numbers[i] = *one;
  }
  return numbers;
}

// "11/23/26" of 1.8.19, "11/23/2026" of 1.8.18; "11:49:42 UTC", "11:49:42".
std::optional<BmcTime> time_of(std::string_view date, std::string_view clock) {
  clock = trimmed(clock);
  const auto day = three(trimmed(date), '/');
  const auto hour = three(clock.substr(0, clock.find(' ')), ':');
  if (!day || !hour) return std::nullopt;
  const int year = (*day)[2] < 100 ? 2000 + (*day)[2] : (*day)[2];
  const std::chrono::year_month_day ymd{std::chrono::year(year),
                                        std::chrono::month(static_cast<unsigned>((*day)[0])),
                                        std::chrono::day(static_cast<unsigned>((*day)[1]))};
  const bool is_time = (*hour)[0] < 24 && (*hour)[1] < 60 && (*hour)[2] <= 60;
  if (!ymd.ok() || !is_time) return std::nullopt;
  return std::chrono::sys_days(ymd) + std::chrono::hours((*hour)[0]) +
         std::chrono::minutes((*hour)[1]) + std::chrono::seconds((*hour)[2]);
}

// Gives each line that is not blank to `read`, which says whether it understood it.
template <class Reading, class Read>
void read_lines_of(std::string_view text, Reading& reading, Read read) {
  reading.is_cut = !text.empty() && text.back() != '\n';
  std::size_t lines = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    if (++lines > lines_max) {
      reading.is_cut = true;
      return;
    }
    if (line.size() > line_max || !read(line)) ++reading.skipped_lines;
  }
}

bool is_record_number(std::string_view text) {
  return !text.empty() && text.size() <= 4 &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

// "1b,11/23/26,11:49:42 UTC,Memory #0x53,Uncorrectable ECC,Asserted"; before the clock was set:
// "1, Pre-Init ,0000000748,Memory #0x53,Uncorrectable ECC,Asserted". What happened may hold commas.
bool read_event(std::string_view line, BmcLog& log) {
  if (line == bmc_empty_log) return true;
  const auto fields = split(line, ',');
  if (fields.size() < 4 || !is_record_number(fields[0])) return false;
  const std::string_view direction = trimmed(fields.back());
  const bool is_asserted = direction == "Asserted";
  const bool is_event = is_asserted || direction == "Deasserted";
  const std::string_view sensor = trimmed(fields[3]);
  if (sensor.starts_with("OEM record")) return !is_event;
  if (!is_event || fields.size() < 6 || sensor.empty()) return false;
  const char* begin = fields[4].data();
  const char* end = fields.back().data() - 1;
  const std::string_view what(begin, static_cast<std::size_t>(end - begin));
  log.events.push_back({time_of(fields[1], fields[2]), std::string(sensor),
                        std::string(trimmed(what)), is_asserted, std::string(line)});
  return true;
}

// With `elist` the letter before says lower or upper.
std::optional<BmcSensorState> state_of(std::string_view word) {
  if (word.size() == 3 && (word.front() == 'l' || word.front() == 'u')) word.remove_prefix(1);
  if (word == "ok") return BmcSensorState::good;
  if (word == "ns" || word == "us") return BmcSensorState::unread;
  if (word == "nc") return BmcSensorState::non_critical;
  if (word == "cr") return BmcSensorState::critical;
  if (word == "nr") return BmcSensorState::non_recoverable;
  return std::nullopt;
}

bool is_sensor_number(std::string_view word) {
  return word.size() == 3 && word.ends_with('h') &&
         word.substr(0, 2).find_first_not_of("0123456789ABCDEF") == word.npos;
}

// Of a sensor without thresholds: "PS1 Status,09h,ok,3.1,Presence detected, Failure detected". What
// it tells is an event too, and stands in the log. Without such words: "PS1 Status,0x03,ok".
bool is_discrete(const std::vector<std::string_view>& fields) {
  if (fields.size() == 3) return fields[1].starts_with("0x") && state_of(fields[2]).has_value();
  for (std::size_t i = 1; i + 2 < fields.size(); ++i) {
    if (is_sensor_number(fields[i]) && state_of(fields[i + 1])) return true;
  }
  return false;
}

// "CPU1 Temp,92,degrees C,cr"; without a reading "CPU1 Temp,,,ns". Names may hold commas.
bool read_sensor(std::string_view line, BmcSensors& sensors) {
  const auto fields = split(line, ',');
  if (is_discrete(fields)) return true;
  if (fields.size() < 4) return false;
  const auto state = state_of(trimmed(fields.back()));
  if (!state) return false;
  const std::string_view unit = trimmed(fields[fields.size() - 2]);
  const std::string_view value = trimmed(fields[fields.size() - 3]);
  const char* end = fields[fields.size() - 3].data() - 1;
  const std::string_view name = trimmed({line.data(), static_cast<std::size_t>(end - line.data())});
  if (name.empty()) return false;
  std::string text(value);
  if (!unit.empty()) text += " " + std::string(unit);
  sensors.sensors.push_back({std::string(name), std::move(text), *state});
  return true;
}

void number_equal_names(std::vector<BmcSensor>& sensors) {
  std::map<std::string, int> seen;
  for (BmcSensor& sensor : sensors) {
    const int count = ++seen[sensor.name];
    if (count > 1) sensor.name += " (" + std::to_string(count) + ")";
  }
}

}  // namespace

std::optional<BmcTime> read_bmc_clock(std::string_view text) {
  text = trimmed(text.substr(0, text.find('\n')));
  const std::size_t space = text.find(' ');
  if (space == text.npos) return std::nullopt;
  return time_of(text.substr(0, space), text.substr(space + 1));
}

BmcLog read_bmc_log(std::string_view text) {
  BmcLog log;
  read_lines_of(text, log, [&](std::string_view line) { return read_event(line, log); });
  return log;
}

BmcSensors read_bmc_sensors(std::string_view text) {
  BmcSensors sensors;
  read_lines_of(text, sensors, [&](std::string_view line) { return read_sensor(line, sensors); });
  number_equal_names(sensors.sensors);
  return sensors;
}

}  // namespace muster
