#include "health/model/gpu_readings.h"

#include <algorithm>
#include <utility>

#include "health/model/source_files.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t key_max_bytes = 128;
constexpr std::size_t value_max_bytes = 4096;  // a list of processes is the longest
constexpr std::int64_t gpus_max = 64;
constexpr std::string_view rc_suffix = ".rc";

bool is_key(std::string_view key) {
  return key.size() <= key_max_bytes && is_word_of(key, "_.");
}

// One line, whatever a board has burnt into its name.
std::string printable(std::string_view value) {
  std::string clean(value.substr(0, value_max_bytes));
  for (char& c : clean) {
    if (c >= 0 && c < ' ') c = '?';
  }
  return clean;
}

void take_line(std::string_view line, GpuReadings& readings) {
  const std::string_view key = line.substr(0, line.find(' '));
  std::string_view value = line.substr(std::min(line.size(), key.size() + 1));
  if (!is_key(key) || value.size() > value_max_bytes) return;
  if (key == "calling") return readings.begin_call(std::string(value));
  if (key == "stopped") return readings.stop(printable(value));
  if (key == "complete") return readings.complete();
  if (!key.ends_with(rc_suffix))
    return readings.add(std::string(key), GpuReading{0, printable(value)});
  const auto rc = decimal_or_hex(value);
  if (rc && *rc > 0 && *rc < 1'000'000) {
    readings.add(std::string(key.substr(0, key.size() - rc_suffix.size())),
                 GpuReading{static_cast<int>(*rc), {}});
  }
}

constexpr std::pair<int, const char*> code_words[] = {
    {1, "not initialised"},
    {2, "invalid argument"},
    {3, "not supported"},
    {4, "no permission"},
    {6, "not found"},
    {7, "insufficient size"},
    {8, "insufficient power"},
    {9, "driver not loaded"},
    {10, "timeout"},
    {11, "interrupt problem"},
    {12, "library not found"},
    {13, "function not found"},
    {14, "corrupted InfoROM"},
    {15, "the GPU is lost"},
    {16, "the GPU needs a reset"},
    {17, "blocked by the operating system"},
    {18, "driver and library differ"},
    {19, "in use"},
    {20, "out of memory"},
    {25, "struct version not known"},
    {999, "unknown error"},
};

}  // namespace

const GpuReading* GpuReadings::find(std::string_view key) const {
  const auto found = all_.find(key);
  return found == all_.end() ? nullptr : &found->second;
}

std::optional<std::string_view> GpuReadings::text(std::string_view key) const {
  const GpuReading* reading = find(key);
  if (reading == nullptr || reading->rc != 0) return std::nullopt;
  return reading->value;
}

std::optional<std::int64_t> GpuReadings::number(std::string_view key) const {
  const auto said = text(key);
  return said ? decimal_or_hex(*said) : std::nullopt;
}

int GpuReadings::count() const {
  return static_cast<int>(std::clamp<std::int64_t>(number("count").value_or(0), 0, gpus_max));
}

std::vector<std::string> GpuReadings::devices() const {
  std::vector<std::string> devices;
  for (int gpu = 0; gpu < count(); ++gpu) devices.push_back("gpu" + std::to_string(gpu));
  return devices;
}

std::string line_of(const std::string& key, const GpuReading& reading) {
  if (reading.rc != 0)
    return key + std::string(rc_suffix) + " " + std::to_string(reading.rc) + "\n";
  return key + " " + printable(reading.value) + "\n";
}

std::string write_gpu_readings(const GpuReadings& readings) {
  std::string text;
  for (const auto& [key, reading] : readings.all()) text += line_of(key, reading);
  if (readings.is_complete()) return text + "complete 1\n";
  if (!readings.calling().empty()) text += "calling " + readings.calling() + "\n";
  if (!readings.stopped().empty()) text += "stopped " + printable(readings.stopped()) + "\n";
  return text;
}

GpuReadings parse_gpu_readings(std::string_view text) {
  GpuReadings readings;
  while (true) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return readings;
    take_line(text.substr(0, end), readings);
    text.remove_prefix(end + 1);
  }
}

std::string nvml_code_text(int rc) {
  const auto found = std::ranges::find(code_words, rc, &std::pair<int, const char*>::first);
  const std::string words = found == std::end(code_words) ? "error" : found->second;
  return words + " (" + std::to_string(rc) + ")";
}

}  // namespace muster
