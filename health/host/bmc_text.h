// What ipmitool 1.8.18 and 1.8.19 say of a board's management controller (BMC), as data: its clock,
// its event log, its sensors. With LC_ALL=C and TZ=UTC0, so that dates are American and in UTC.
// Pure; what is malformed, cut off or huge gives less, and says so.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

using BmcTime = std::chrono::sys_seconds;  // by the controller's own clock

// `ipmitool sel time get`. Nothing: the clock was not set since the controller started.
std::optional<BmcTime> read_bmc_clock(std::string_view text);

struct BmcEvent {
  std::optional<BmcTime> at;  // nothing: it happened before the clock was set
  std::string sensor;         // "Memory #0x53"
  std::string what;           // "Uncorrectable ECC"
  bool is_asserted = false;
  std::string line;
};

// What is not in a text that is not whole may have happened.
struct BmcLog {
  std::vector<BmcEvent> events;  // as they were written, the oldest first
  int skipped_lines = 0;
  bool is_cut = false;
  bool is_whole() const { return skipped_lines == 0 && !is_cut; }
};
// What the tool says of a log without records, on its standard error or output.
inline constexpr std::string_view bmc_empty_log = "SEL has no entries";
// `ipmitool -c sel list`, of which records in a maker's own form are left out.
BmcLog read_bmc_log(std::string_view text);

enum class BmcSensorState {
  unread,  // no reading, or one that has no thresholds
  good,
  non_critical,
  critical,
  non_recoverable
};

struct BmcSensor {
  std::string name;   // of several of one name the second is "Temp (2)"
  std::string value;  // "92 degrees C"
  BmcSensorState state = BmcSensorState::unread;
};

struct BmcSensors {
  std::vector<BmcSensor> sensors;
  int skipped_lines = 0;
  bool is_cut = false;
  bool is_whole() const { return skipped_lines == 0 && !is_cut; }
};
// `ipmitool -c sdr list full`
BmcSensors read_bmc_sensors(std::string_view text);

}  // namespace muster
