// Texts of ipmitool 1.8.19 on ipmi_sim 2.0.33; those that say 1.8.18 are synthetic, in its form.
#include "health/host/bmc.h"

#include <random>

#include "health/host/bmc_text.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr const char* clock_text = "11/23/26 11:49:42 UTC\n";
constexpr const char* sensors_text =
    "CPU0 Temp,45,degrees C,ok\n"
    "Inlet,85,degrees C,nc\n"
    "PS1 Status,09h,ok,3.1,Presence detected, Failure detected\n"
    "Absent,,,ns\n";
constexpr const char* hot_text =
    "CPU0 Temp,45,degrees C,ok\n"
    "CPU1, Temp,92,degrees C,cr\n"
    "GPU Temp,105,degrees C,nr\n";

SourceFiles said(const std::string& log, const std::string& sensors = sensors_text,
                 const std::string& clock = clock_text) {
  SourceFiles files;
  files.add("ipmi:time", clock);
  files.add("ipmi:sel", log);
  files.add("ipmi:sdr", sensors);
  return files;
}

HealthFinding judged(const SourceFiles& first, const SourceFiles* again = nullptr) {
  const auto finding = judge_bmc(first, again, HealthProfile{});
  REQUIRE(finding);
  CHECK(finding->check == "host.bmc");
  return *finding;
}

std::string event(const std::string& when, const std::string& what,
                  const std::string& direction = "Asserted") {
  return "1b," + when + "," + what + "," + direction + "\n";
}

const std::string an_hour_ago = "11/23/26,10:49:42 UTC";
const std::string two_days_ago = "11/21/26,10:49:42 UTC";
const std::string undated = " Pre-Init ,0000000748";
const std::string lost_memory = "Memory #0x53,Uncorrectable ECC";

}  // namespace

TEST_CASE("the clock of a board is read in the forms of both releases") {
  using namespace std::chrono;
  const BmcTime time = sys_days(2026y / November / 23) + 11h + 49min + 42s;
  CHECK(read_bmc_clock("11/23/26 11:49:42 UTC\n") == time);
  CHECK(read_bmc_clock("11/23/2026 11:49:42\n") == time);
  CHECK_FALSE(read_bmc_clock("S+ 00:12:05\n"));
  for (const char* text : {"", "\n", "Unspecified\n", "13/01/26 00:00:00\n", "02/30/26 00:00:00\n",
                           "11/23/26\n", "11/23/26 24:00:00 UTC\n", "11/23/26 11:-9:42 UTC\n"}) {
    INFO(text);
    CHECK_FALSE(read_bmc_clock(text));
  }
}

TEST_CASE("events are read with their dates, sensors and directions") {
  const BmcLog log = read_bmc_log(
      "1, Pre-Init ,0000000748,Memory #0x53,Uncorrectable ECC,Asserted\n"
      "3,11/23/26,11:49:42 UTC,Power Supply #0xc8,AC out-of-range, but present,Asserted\n"
      "d,11/23/2026,11:49:43,Fan #0x40,Lower Critical going low ,Deasserted\n"
      "19, Pre-Init ,0000000748,OEM record c1,030201,040506070809\n"
      "1a,,,OEM record e1,00000000010203040506070809\n");
  CHECK(log.is_whole());
  REQUIRE(log.events.size() == 3);
  CHECK_FALSE(log.events[0].at);
  CHECK(log.events[1].what == "AC out-of-range, but present");
  CHECK(log.events[1].is_asserted);
  CHECK(log.events[2].sensor == "Fan #0x40");
  CHECK(log.events[2].what == "Lower Critical going low");
  CHECK_FALSE(log.events[2].is_asserted);
  CHECK(*log.events[2].at - *log.events[1].at == 1s);
  CHECK(read_bmc_log("SEL has no entries\n").is_whole());
}

TEST_CASE("a log that is not whole says so") {
  CHECK_FALSE(read_bmc_log("1b,11/23/26,11:49:42 UTC,Memory #0x53,Uncorr").is_whole());
  CHECK(read_bmc_log("Get SEL Entry 5 command failed\n").skipped_lines == 1);
  CHECK(read_bmc_log("zz,11/23/26,11:49:42,Memory,x,Asserted\n").skipped_lines == 1);
  CHECK(read_bmc_log(std::string(5000, 'a') + "\n").skipped_lines == 1);
}

TEST_CASE("sensors are read, those of states without thresholds are not") {
  const BmcSensors read = read_bmc_sensors(std::string(sensors_text) + hot_text);
  CHECK(read.is_whole());
  REQUIRE(read.sensors.size() == 6);
  CHECK(read.sensors[0].value == "45 degrees C");
  CHECK(read.sensors[1].state == BmcSensorState::non_critical);
  CHECK(read.sensors[2].state == BmcSensorState::unread);
  CHECK(read.sensors[3].name == "CPU0 Temp (2)");
  CHECK(read.sensors[4].name == "CPU1, Temp");
  CHECK(read.sensors[4].state == BmcSensorState::critical);
  CHECK(read.sensors[5].state == BmcSensorState::non_recoverable);
  CHECK(read_bmc_sensors("A,1,V,ucr\nPS,0x03,ok\n").is_whole());
  CHECK(read_bmc_sensors("CPU0 Temp,45,degrees C,perhaps\n").skipped_lines == 1);
}

TEST_CASE("a board without critical events and sensors passes") {
  const HealthFinding finding =
      judged(said(event(an_hour_ago, "Memory #0x53,Correctable ECC") +
                  event(an_hour_ago, "Power Supply #0xc8,Presence detected") +
                  event(an_hour_ago, "Temperature #0x30,Upper Critical going low")));
  CHECK(finding.status == CheckStatus::pass);
  CHECK(finding.value == "3 events, none critical, 3 sensors, none critical");
  CHECK(judged(said("SEL has no entries\n")).status == CheckStatus::pass);
}

TEST_CASE("each critical event of the last day is a warning") {
  for (const char* what :
       {"Memory #0x53,Uncorrectable ECC", "Processor #0x10,IERR", "Processor #0x10,Thermal Trip",
        "Processor #0x10,Uncorrectable machine check exception",
        "Power Supply #0xc8,Failure detected", "Power Supply #0xc8,Power Supply AC lost",
        "Drive Slot / Bay #0x20,Drive Fault", "Critical Interrupt #0x50,PCI SERR",
        "Critical Interrupt #0x50,Bus Uncorrectable error",
        "Temperature #0x30,Upper Critical going high", "Fan #0x40,Lower Critical going low ",
        "Temperature #0x30,Upper Non-recoverable going high",
        "Power Supply #0xc9,Transition to Critical from less severe",
        "Power Supply #0xc9,Transition to Non-recoverable from less severe"}) {
    INFO(what);
    const HealthFinding finding = judged(said(event(an_hour_ago, what)));
    CHECK(finding.status == CheckStatus::fail);
    CHECK(finding.severity.remedy == Remedy::warn);
    CHECK(judged(said(event(two_days_ago, what))).status == CheckStatus::pass);
    CHECK(judged(said(event(an_hour_ago, what) + event(an_hour_ago, what, "Deasserted"))).status ==
          CheckStatus::pass);
  }
}

TEST_CASE("a failure names what failed, with its line") {
  const HealthFinding finding = judged(said(event(an_hour_ago, lost_memory)));
  CHECK(finding.value == "Memory #0x53 Uncorrectable ECC");
  CHECK(finding.expected == "nothing critical");
  REQUIRE(finding.evidence.size() == 1);
  CHECK(finding.evidence[0] == "1b,11/23/26,10:49:42 UTC,Memory #0x53,Uncorrectable ECC,Asserted");
}

TEST_CASE("what is over ends only what it is about") {
  const std::string supply = "Power Supply #0xc8,Failure detected";
  CHECK(judged(said(event(an_hour_ago, supply) +
                    event(an_hour_ago, "Power Supply #0xc9,Failure detected", "Deasserted")))
            .status == CheckStatus::fail);
  CHECK(
      judged(said(event(an_hour_ago, supply, "Deasserted") + event(an_hour_ago, supply))).status ==
      CheckStatus::fail);
  const std::string fallen = "Power Supply #0xc8,Transition to Critical from less severe";
  CHECK(judged(said(event(an_hour_ago, fallen) +
                    event(an_hour_ago, "Power Supply #0xc8,Transition to OK")))
            .status == CheckStatus::pass);
}

TEST_CASE("an event without a date lies between those around it that have one") {
  const std::string later = "Memory #0x53,Correctable ECC";
  const std::string seen = event(undated, lost_memory) + event(an_hour_ago, later);
  CHECK(judged(said(event(undated, lost_memory) + event(two_days_ago, later))).status ==
        CheckStatus::pass);
  CHECK(judged(said(seen)).status == CheckStatus::unknown);
  CHECK(judged(said(event(two_days_ago, later) + seen)).status == CheckStatus::unknown);
  CHECK(judged(said(event(an_hour_ago, later) + seen)).status == CheckStatus::fail);
  // Written by a clock that began anew.
  const std::string restarted = event("01/01/00,00:05:00 UTC", lost_memory);
  CHECK(judged(said(event(two_days_ago, later) + restarted)).status == CheckStatus::unknown);
  CHECK(judged(said(event(an_hour_ago, later) + event(undated, lost_memory))).status ==
        CheckStatus::unknown);
  // Written by a clock that was ahead.
  CHECK(judged(said(event("01/01/35,00:00:00 UTC", lost_memory))).status == CheckStatus::unknown);
  CHECK(judged(said(event("01/01/35,00:00:00 UTC", lost_memory) + event(two_days_ago, later)))
            .status == CheckStatus::pass);
}

TEST_CASE("without a clock what is old beside the newest event is old, and no more is known") {
  const std::string log = event(two_days_ago, lost_memory);
  const std::string newer = event(an_hour_ago, "Memory #0x53,Correctable ECC");
  const std::string unset = "S+ 00:12:05\n";
  CHECK(judged(said(log + newer, sensors_text, unset)).status == CheckStatus::pass);
  CHECK(judged(said(log, sensors_text, unset)).status == CheckStatus::unknown);
  CHECK(judged(said(newer, sensors_text, unset)).status == CheckStatus::pass);
  SourceFiles silent = said(newer + event(an_hour_ago, lost_memory));
  silent.add("ipmi:time", FileReading{{}, "no answer within 3 s", false});
  CHECK(judged(silent).status == CheckStatus::unknown);
}

TEST_CASE("a sensor is bad when it is bad twice in a row") {
  const SourceFiles hot = said("SEL has no entries\n", hot_text);
  CHECK(bmc_sources_again(hot) == std::vector<std::string>{"ipmi:sdr"});
  CHECK(bmc_sources_again(said("")).empty());

  SourceFiles again;
  again.add("ipmi:sdr", "CPU1, Temp,91,degrees C,cr\nGPU Temp,80,degrees C,ok\n");
  const HealthFinding finding = judged(hot, &again);
  CHECK(finding.status == CheckStatus::fail);
  CHECK(finding.value == "CPU1, Temp 91 degrees C is critical");

  again.add("ipmi:sdr", "CPU1, Temp,60,degrees C,ok\nGPU Temp,80,degrees C,ok\n");
  CHECK(judged(hot, &again).status == CheckStatus::pass);
  again.add("ipmi:sdr", "CPU1, Temp,60,degrees C,ok\n");
  CHECK(judged(hot, &again).status == CheckStatus::unknown);
  again.add("ipmi:sdr", FileReading{{}, "no answer within 12 s", false});
  CHECK(judged(hot, &again).status == CheckStatus::unknown);
  CHECK(judged(hot).status == CheckStatus::unknown);
}

TEST_CASE("what the board does not tell is unknown, and never hides what it tells") {
  SourceFiles files = said("SEL has no entries\n");
  files.add("ipmi:sdr", FileReading{{}, "no answer within 12 s", false});
  const HealthFinding finding = judged(files);
  CHECK(finding.status == CheckStatus::unknown);
  CHECK(finding.evidence[0] == "ipmi:sdr: no answer within 12 s");
  files.add("ipmi:sel", event(an_hour_ago, lost_memory));
  CHECK(judged(files).status == CheckStatus::fail);
  CHECK(judged(said("??\n")).status == CheckStatus::unknown);
  CHECK(judged(said("SEL has no entries\n", "Inlet,85,deg")).status == CheckStatus::unknown);
  CHECK(judged(said("SEL has no entries\n", "")).status == CheckStatus::pass);
}

TEST_CASE("a node without a board's controller has no such row, unless the profile asks for it") {
  SourceFiles none;
  for (const std::string& source : bmc_sources())
    none.add(source, FileReading{{}, "no /dev/ipmi0: no controller, or no driver", true});
  CHECK_FALSE(judge_bmc(none, nullptr, HealthProfile{}));
  CHECK_FALSE(judge_bmc(SourceFiles{}, nullptr, HealthProfile{}));
  HealthProfile required;
  required.required = {"host.bmc"};
  HealthProfile named;
  named.checks["host.bmc"].mode = CheckMode::observe;
  for (const HealthProfile& profile : {required, named}) {
    const auto finding = judge_bmc(none, nullptr, profile);
    REQUIRE(finding);
    CHECK(finding->status == CheckStatus::unknown);
    CHECK(finding->fault_class == FaultClass::setup);
    CHECK(finding->evidence.front().starts_with("no /dev/ipmi0"));
  }
}

TEST_CASE("many failures are counted") {
  std::string log;
  for (int i = 0; i < 20; ++i)
    log += event(an_hour_ago, "Power Supply #0x" + std::to_string(10 + i) + ",Failure detected");
  const HealthFinding finding = judged(said(log));
  CHECK(finding.value.ends_with("; 15 more"));
  CHECK(finding.evidence.size() == 8);
}

TEST_CASE("any bytes give a log, sensors and a judgement") {
  std::mt19937 random(20261123);  // NOLINT: the same bytes each time
  const std::string whole = event(an_hour_ago, lost_memory) + sensors_text + hot_text + clock_text;
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole.substr(0, random() % (whole.size() + 1));
    for (std::size_t spoiled = random() % 8; spoiled > 0 && !text.empty(); --spoiled)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    const SourceFiles files = said(text, text, text);
    read_bmc_clock(text);
    const auto finding = judge_bmc(files, &files, HealthProfile{});
    REQUIRE(finding);
  }
}

TEST_CASE("a text that was cut anywhere is no pass") {
  const std::string log = event(an_hour_ago, "Memory #0x53,Correctable ECC");
  for (std::size_t size = 1; size < log.size(); ++size)
    CHECK(judged(said(log.substr(0, size))).status != CheckStatus::pass);
}
