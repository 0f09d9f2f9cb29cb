#include "health/host/bmc.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "health/host/bmc_text.h"
#include "health/model/check.h"
#include "health/model/judged_check.h"

namespace muster {

namespace {

constexpr std::string_view check_id = "host.bmc";
constexpr std::string_view clock_source = "ipmi:time";
constexpr std::string_view log_source = "ipmi:sel";
constexpr std::string_view sensor_source = "ipmi:sdr";

constexpr std::chrono::hours looked_back{24};
// An event later than the clock was written by a clock that was wrong since; a little is the time
// between the two questions.
constexpr std::chrono::minutes clock_slack{5};
constexpr std::size_t named_max = 5;
constexpr std::size_t evidence_max = 8;

struct CriticalEvent {
  std::string_view kind;  // of sensor; empty: any
  std::string_view what;
};
// IPMI 2.0, tables 42-2 and 42-3, in ipmitool's words: what was lost, is about to be, or says that
// a part failed.
constexpr std::array critical_events{
    CriticalEvent{"Memory", "Uncorrectable ECC"},
    CriticalEvent{"Memory", "Parity"},
    CriticalEvent{"Memory", "Critical Overtemperature"},
    CriticalEvent{"Processor", "IERR"},
    CriticalEvent{"Processor", "Thermal Trip"},
    CriticalEvent{"Processor", "FRB1/BIST failure"},
    CriticalEvent{"Processor", "FRB2/Hang in POST failure"},
    CriticalEvent{"Processor", "FRB3/Processor startup/init failure"},
    CriticalEvent{"Processor", "SM BIOS Uncorrectable CPU-complex Error"},
    CriticalEvent{"Processor", "Uncorrectable machine check exception"},
    CriticalEvent{"Power Supply", "Failure detected"},
    CriticalEvent{"Power Supply", "Power Supply AC lost"},
    CriticalEvent{"Power Supply", "AC lost or out-of-range"},
    CriticalEvent{"Drive Slot / Bay", "Drive Fault"},
    CriticalEvent{"Drive Slot / Bay", "In Failed Array"},
    CriticalEvent{"Critical Interrupt", "PCI PERR"},
    CriticalEvent{"Critical Interrupt", "PCI SERR"},
    CriticalEvent{"Critical Interrupt", "Bus Uncorrectable error"},
    CriticalEvent{"Critical Interrupt", "Bus Fatal Error"},
    CriticalEvent{"Critical Interrupt", "Fatal NMI"},
    CriticalEvent{"", "Lower Critical going low"},
    CriticalEvent{"", "Upper Critical going high"},
    CriticalEvent{"", "Lower Non-recoverable going low"},
    CriticalEvent{"", "Upper Non-recoverable going high"},
    CriticalEvent{"", "Transition to Critical from less severe"},
    CriticalEvent{"", "Transition to Critical from Non-recoverable"},
    CriticalEvent{"", "Transition to Non-recoverable from less severe"},
    CriticalEvent{"", "Transition to Non-recoverable"}};
// What ends every transition of the same sensor.
constexpr std::array<std::string_view, 2> all_clear{"Transition to OK",
                                                    "Transition to Non-critical from more severe"};

bool is_critical(const BmcEvent& event) {
  return std::ranges::any_of(critical_events, [&](const CriticalEvent& one) {
    return one.what == event.what && event.sensor.starts_with(one.kind);
  });
}

// When an event happened: of one with a right date both are that. Nothing: no other event tells.
struct EventTime {
  std::optional<BmcTime> at_earliest;
  std::optional<BmcTime> at_latest;
};

// An undated event lies between those around it that are dated. What is later than the clock, or
// earlier than what was written before it, was written by a clock that was wrong.
std::vector<EventTime> times_of(const BmcLog& log, std::optional<BmcTime> now) {
  std::vector<EventTime> times(log.events.size());
  std::optional<BmcTime> newest;
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    const auto& at = log.events[i].at;
    const bool is_right =
        at && (!now || *at <= *now + clock_slack) && (!newest || *at + clock_slack >= *newest);
    if (is_right) newest = newest ? std::max(*newest, *at) : at;
    times[i] = is_right ? EventTime{at, at} : EventTime{newest, std::nullopt};
  }
  std::optional<BmcTime> next;
  for (std::size_t i = log.events.size(); i-- > 0;) {
    if (times[i].at_latest) next = times[i].at_latest;
    times[i].at_latest = next;
  }
  return times;
}

struct Standing {
  BmcEvent event;
  EventTime time;
};

// What was asserted last and not taken back.
std::vector<Standing> standing_events(const BmcLog& log, std::optional<BmcTime> now) {
  const auto times = times_of(log, now);
  std::map<std::pair<std::string, std::string>, Standing> standing;
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    const BmcEvent& event = log.events[i];
    if (event.is_asserted && std::ranges::find(all_clear, event.what) != all_clear.end()) {
      std::erase_if(standing, [&](const auto& one) {
        return one.first.first == event.sensor && one.first.second.starts_with("Transition to ");
      });
    }
    if (!is_critical(event)) continue;
    const std::pair key(event.sensor, event.what);
    if (event.is_asserted) {
      standing.insert_or_assign(key, Standing{event, times[i]});
    } else {
      standing.erase(key);
    }
  }
  std::vector<Standing> all;
  for (auto& [key, one] : standing) all.push_back(std::move(one));
  return all;
}

std::optional<BmcTime> newest_of(const BmcLog& log) {
  std::optional<BmcTime> newest;
  for (const BmcEvent& event : log.events) {
    if (event.at) newest = newest ? std::max(*newest, *event.at) : event.at;
  }
  return newest;
}

// What of a list is named, and how much more there is.
class Named {
 public:
  void add(std::string text, std::string line) {
    if (++count_ <= named_max) text_ += (text_.empty() ? "" : "; ") + std::move(text);
    if (lines_.size() < evidence_max) lines_.push_back(std::move(line));
  }
  void tell(JudgedCheck& judged) const {
    if (count_ == 0) return;
    const std::string more =
        count_ > named_max ? "; " + std::to_string(count_ - named_max) + " more" : "";
    judged.fail(text_ + more, "nothing critical");
    for (const std::string& line : lines_) judged.add_evidence(line);
  }

 private:
  std::string text_;
  std::size_t count_ = 0;
  std::vector<std::string> lines_;
};

std::string not_whole(const char* of, int skipped_lines) {
  return std::string(of) + (skipped_lines > 0
                                ? ": " + std::to_string(skipped_lines) + " lines are not understood"
                                : " is cut off");
}

void judge_events(const SourceFiles& files, JudgedCheck& judged, Named& bad) {
  const FileReading& said = files.reading(log_source);
  if (!said.ok()) judged.unreadable(log_source, said);
  const BmcLog log = read_bmc_log(said.text);
  if (said.ok() && !log.is_whole())
    judged.unknown(not_whole("the board's event log", log.skipped_lines));
  const auto clock = read_bmc_clock(files.reading(clock_source).text);
  // Without a clock the newest event tells the least that the time can be.
  const auto now = clock ? clock : newest_of(log);
  for (const Standing& one : standing_events(log, clock)) {
    const std::string text = one.event.sensor + " " + one.event.what;
    const auto& [at_earliest, at_latest] = one.time;
    const bool is_old = now && at_latest && *at_latest < *now - looked_back;
    if (is_old) continue;
    const bool is_new = at_earliest && at_latest && clock && *at_earliest >= *clock - looked_back;
    if (is_new) {
      bad.add(text, one.event.line);
    } else {
      judged.unknown(text + ": no clock tells when: " + one.event.line);
    }
  }
  if (said.ok() && log.is_whole())
    judged.pass(std::to_string(log.events.size()) + " events, none critical");
}

bool is_bad(const BmcSensor& sensor) {
  return sensor.state == BmcSensorState::critical ||
         sensor.state == BmcSensorState::non_recoverable;
}

std::map<std::string, BmcSensor> bad_sensors(const BmcSensors& read) {
  std::map<std::string, BmcSensor> bad;
  for (const BmcSensor& one : read.sensors) {
    if (is_bad(one)) bad.emplace(one.name, one);
  }
  return bad;
}

std::string text_of(const BmcSensor& sensor) {
  const char* state = sensor.state == BmcSensorState::critical ? "critical" : "non-recoverable";
  return sensor.name + " " + sensor.value + " is " + state;
}

void judge_again(const std::map<std::string, BmcSensor>& suspects, const SourceFiles* again,
                 JudgedCheck& judged, Named& bad) {
  if (suspects.empty()) return;
  static const FileReading none{{}, "not read again", false};
  const FileReading& said = again == nullptr ? none : again->reading(sensor_source);
  const BmcSensors read = read_bmc_sensors(said.text);
  const auto still = bad_sensors(read);
  std::set<std::string> told;
  for (const BmcSensor& one : read.sensors) told.insert(one.name);
  for (const auto& [name, first] : suspects) {
    const auto found = still.find(name);
    if (found != still.end()) {
      bad.add(text_of(found->second), "before: " + text_of(first));
    } else if (!told.contains(name)) {
      judged.unknown(text_of(first) +
                     "; a second time: " + (said.ok() ? "it is not in the list" : said.error));
    }
  }
}

void judge_sensors(const SourceFiles& first, const SourceFiles* again, JudgedCheck& judged,
                   Named& bad) {
  const FileReading& said = first.reading(sensor_source);
  if (!said.ok()) judged.unreadable(sensor_source, said);
  const BmcSensors read = read_bmc_sensors(said.text);
  if (said.ok() && !read.is_whole())
    judged.unknown(not_whole("the list of sensors", read.skipped_lines));
  judge_again(bad_sensors(read), again, judged, bad);
  if (said.ok() && read.is_whole())
    judged.pass(std::to_string(read.sensors.size()) + " sensors, none critical");
}

}  // namespace

std::vector<std::string> bmc_sources() {
  return {std::string(clock_source), std::string(log_source), std::string(sensor_source)};
}

std::vector<std::string> bmc_sources_again(const SourceFiles& first) {
  const BmcSensors read = read_bmc_sensors(first.reading(sensor_source).text);
  if (std::ranges::none_of(read.sensors, is_bad)) return {};
  return {std::string(sensor_source)};
}

std::optional<HealthFinding> judge_bmc(const SourceFiles& first, const SourceFiles* again,
                                       const HealthProfile& profile) {
  const FileReading& log = first.reading(log_source);
  if (log.is_missing) {
    if (!is_named_by(profile, check_id)) return std::nullopt;
    HealthFinding finding = make_finding(check_id, "", CheckStatus::unknown);
    finding.fault_class = FaultClass::setup;
    finding.expected = "nothing critical";
    finding.evidence.push_back(log.error.empty() ? "nobody asked the board" : log.error);
    return finding;
  }
  JudgedCheck judged(check_id);
  Named bad;
  judge_events(first, judged, bad);
  judge_sensors(first, again, judged, bad);
  bad.tell(judged);
  return judged.finding();
}

}  // namespace muster
