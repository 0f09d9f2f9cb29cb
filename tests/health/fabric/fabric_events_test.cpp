// Lines in the form of UFM's event.log: synthetic, after those that ufm_events.h names.
#include <algorithm>
#include <random>

#include "health/fabric/ufm_events.h"
#include "tests/catch.h"
#include "tests/health/fabric_finding.h"
#include "tests/health/fabric_samples.h"

using namespace muster;
using namespace muster::fabric_samples;
using namespace std::chrono_literals;

namespace {

const std::string n2_link =
    "(Computer:n2 mlx5_0:1)100005:1 - (Switch:leaf1:1/3)200000:3, cable S/N: MT2330FT09118";

std::string line(const std::string& when, const std::string& message,
                 const std::string& code = "329") {
  return when + " [812] [" + code +
         "] WARNING [Fabric_Notification] Link [Source x: y]: " + message + "\n";
}
std::string down(const std::string& when, const std::string& link = n2_link) {
  return line(when, "Link went down: " + link);
}
// So that the log reaches over the day.
const std::string day_before = line("2026-11-21 10:00:00.001", "UFM started", "517");
const UfmTime now =
    UfmTime(std::chrono::local_days(std::chrono::year(2026) / 11 / 23).time_since_epoch() + 12h);

UfmEvents read_events(std::string_view text) {
  UfmEventReader reader;
  reader.feed(text);
  return reader.done();
}
FabricFindings judged_events(const std::string& text, const HealthProfile& profile = {}) {
  return judge_fabric_events(read_events(text), read_iblinkinfo(said(linked)), now, profile);
}

}  // namespace

TEST_CASE("events are read with their ends and times") {
  const UfmEvents events =
      read_events(day_before + down("2026-11-23 09:00:00.442") +
                  line("2026-11-23 09:00:05", "Link went up: " + n2_link, "328"));
  CHECK(events.error == "");
  CHECK(events.events == 3);
  CHECK(events.skipped_lines == 0);
  REQUIRE(events.cables.size() == 1);
  const auto& [link, cable] = *events.cables.begin();
  CHECK(link == link_of({0x100005, 1}, {0x200000, 3}));
  CHECK(cable.down.front() == now - 3h);
  CHECK(find_node(events.named, 0x100005)->name == "n2 mlx5_0");
  CHECK(find_node(events.named, 0x200000)->kind == FabricNodeKind::switch_node);
}

TEST_CASE("two flaps a day pass, three drain the host at the end of the cable") {
  const std::string two =
      day_before + down("2026-11-22 20:00:00.000") + down("2026-11-23 09:00:00.000");
  CHECK(finding_at(judged_events(two), "n2", "mlx5_0:1").status == CheckStatus::pass);
  CHECK(finding_at(judged_events(two), "n2", "mlx5_0:1").value == "2");
  CHECK(judged_events(two).size() == 8);
  const std::string three = two + down("2026-11-23 11:00:00.000");
  const auto findings = judged_events(three);
  const HealthFinding& n2 = finding_at(findings, "n2", "mlx5_0:1");
  CHECK(n2.status == CheckStatus::fail);
  CHECK(n2.severity.remedy == Remedy::drain);
  CHECK(n2.value == "3");
  CHECK(n2.expected == "< 3");
  CHECK(n2.evidence.front().find("MT2330FT09118") != std::string::npos);
  HealthProfile patient;
  patient.checks["fab.events"].limits["flaps"] = 5;
  CHECK(finding_at(judged_events(three, patient), "n2", "mlx5_0:1").status == CheckStatus::pass);
}

TEST_CASE("what is more than a day ago does not count") {
  const std::string old = day_before + down("2026-11-22 11:00:00.000") +
                          down("2026-11-22 11:30:00.000") + down("2026-11-23 09:00:00.000");
  CHECK(finding_at(judged_events(old), "n2", "mlx5_0:1").value == "1");
}

TEST_CASE("a cable between switches is nobody's, one that is down now still somebody's") {
  const std::string uplink = "(Switch:leaf1:1/8)200000:8 - (Switch:spine1:1/2)200002:2";
  std::string text = day_before;
  for (int i = 0; i < 3; ++i) text += down("2026-11-23 09:00:00.000", uplink);
  const auto findings = judged_events(text);
  CHECK(finding_at(findings, "", "leaf1[8]-spine1[2]").status == CheckStatus::fail);
  CHECK(finding_at(findings, "", "leaf1[8]-spine1[2]").fault_class == FaultClass::infra);

  std::string gone = day_before;
  for (int i = 0; i < 3; ++i)
    gone += down("2026-11-23 09:00:00.000", "(Computer:n9 mlx5_4:1)99:1 - (Switch:leaf9:1/1)98:1");
  CHECK(finding_at(judged_events(gone), "n9", "mlx5_4:1").status == CheckStatus::fail);
}

TEST_CASE("lines that are not understood are counted, and count for nothing") {
  const std::string text = "starting\n" + day_before + down("2026-13-23 09:00:00") +
                           line("2026-11-23 09:00:00", "Link went down: (who)knows") +
                           std::string(20'000, 'x') + "\n" + down("2026-11-23 11:00:00");
  const UfmEvents events = read_events(text);
  CHECK(events.skipped_lines == 4);
  CHECK(events.events == 2);
  CHECK(finding_at(judged_events(text), "n2", "mlx5_0:1").value == "1");
}

TEST_CASE("a log that does not reach over the day passes nothing") {
  const std::string late = line("2026-11-23 08:00:00.001", "UFM started", "517");
  const auto findings = judged_events(late + down("2026-11-23 09:00:00.000"));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].finding.status == CheckStatus::unknown);
  CHECK(findings[0].finding.fault_class == FaultClass::setup);
  CHECK(findings[0].finding.evidence.front() == "the log begins at 2026-11-23 08:00:00");

  std::string flaps = late;
  for (int i = 0; i < 3; ++i) flaps += down("2026-11-23 09:00:00.000");
  CHECK(finding_at(judged_events(flaps), "n2", "mlx5_0:1").status == CheckStatus::fail);

  const auto stale = judged_events(day_before + down("2026-11-21 11:00:00.000"));
  REQUIRE(stale.size() == 1);
  CHECK(stale[0].finding.evidence.front() == "the log ends at 2026-11-21 11:00:00");
}

TEST_CASE("a log with an event that is yet to come passes nothing") {
  const std::string ahead = day_before + line("2036-01-01 00:00:00.000", "UFM started", "517");
  const auto findings = judged_events(ahead + down("2026-11-23 09:00:00.000"));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].finding.status == CheckStatus::unknown);
  CHECK(findings[0].finding.evidence.front() ==
        "the log has an event of 2036-01-01 00:00:00, to come");

  std::string flaps = ahead;
  for (int i = 0; i < 3; ++i) flaps += down("2026-11-23 09:00:00.000");
  CHECK(finding_at(judged_events(flaps), "n2", "mlx5_0:1").status == CheckStatus::fail);

  const std::string east = day_before + line("2026-11-24 01:00:00.000", "UFM started", "517");
  CHECK(finding_at(judged_events(east), "n2", "mlx5_0:1").status == CheckStatus::pass);
}

TEST_CASE("without links a log passes nothing, and tells of flaps") {
  std::string text = day_before + line("2026-11-23 08:00:00.000", "UFM looked", "517");
  const auto quiet = judge_fabric_events(read_events(text), Fabric{}, now, {});
  REQUIRE(quiet.size() == 1);
  CHECK(quiet[0].finding.status == CheckStatus::unknown);
  CHECK(quiet[0].finding.evidence.front() == "the links are not known");

  for (int i = 0; i < 3; ++i) text += down("2026-11-23 09:00:00.000");
  CHECK(finding_at(judge_fabric_events(read_events(text), Fabric{}, now, {}), "n2", "mlx5_0:1")
            .status == CheckStatus::fail);
}

TEST_CASE("what is no log, or cannot be read, is unknown") {
  UfmEvents unread;
  unread.error = "event.log: Permission denied";
  for (const UfmEvents& events : {read_events(""), read_events("hello\n"), unread}) {
    const auto findings = judge_fabric_events(events, Fabric{}, now, {});
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].finding.status == CheckStatus::unknown);
    CHECK(findings[0].finding.fault_class == FaultClass::setup);
  }
}

TEST_CASE("a storm of events takes no more memory than its cables") {
  UfmEventReader reader;
  reader.feed(day_before);
  for (int i = 0; i < 20'000; ++i) reader.feed(down("2026-11-23 11:00:00.000"));
  const UfmEvents events = reader.done();
  CHECK(events.cables.size() == 1);
  CHECK(events.cables.begin()->second.down.size() == 100);
  CHECK(events.events == 20'001);
}

TEST_CASE("any bytes give events and findings, in whatever parts they come") {
  std::mt19937 random(20261124);  // NOLINT: the same bytes each time
  const std::string whole = day_before + down("2026-11-23 09:00:00.442");
  for (int round = 0; round < 2000; ++round) {
    std::string text = whole.substr(0, random() % (whole.size() + 1));
    for (std::size_t spoiled = random() % 10; spoiled > 0 && !text.empty(); --spoiled)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    CHECK_FALSE(judged_events(text).empty());
    UfmEventReader parts;
    for (std::size_t at = 0; at < text.size(); at += 7)
      parts.feed(std::string_view(text).substr(at, 7));
    CHECK(parts.done().events == read_events(text).events);
  }
}
