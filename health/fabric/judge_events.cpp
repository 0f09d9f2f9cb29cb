#include <algorithm>
#include <array>
#include <cstdio>

#include "health/fabric/fabric_subject.h"
#include "health/fabric/ufm_events.h"
#include "health/model/check.h"

namespace muster {

namespace {

constexpr std::string_view events_check = "fab.events";
constexpr double usual_flaps = 3;
// A log from the other side of the world is ahead by no more. What is later was written by a clock
// that was wrong.
constexpr std::chrono::hours zones_apart{26};

// "2023-12-20 07:46:24"
std::string text_of(UfmTime time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(floor<seconds>(time) - day);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02u %02d:%02d:%02d",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text.data();
}

// Empty: the log reaches over the window.
std::string why_not_whole(const UfmEvents& events, UfmTime now) {
  const UfmTime from = now - flap_window;
  if (*events.last > now) return "the log has an event of " + text_of(*events.last) + ", to come";
  if (events.is_full) return "the log has more cables than are counted";
  if (*events.last < from) return "the log ends at " + text_of(*events.last);
  if (*events.first > from) return "the log begins at " + text_of(*events.first);
  return {};
}

// A cable that is down now is one still: a switch's port is known by its other end.
FabricLink link_in(const FabricLink& told, const Fabric& links) {
  for (const FabricEnd& end : {told.first, told.second}) {
    const FabricPort* port = find_port(links, end);
    if (port != nullptr && port->peer) return link_of(end, *port->peer);
  }
  return told;
}

struct Flaps {
  std::size_t count = 0;
  std::vector<std::string> lines;
};

std::map<FabricLink, Flaps> flaps_of(const UfmEvents& events, const Fabric& links, UfmTime from) {
  const UfmTime until = from + flap_window + zones_apart;
  std::map<FabricLink, Flaps> cables;
  for (const auto& [end, port] : links.ports) {
    if (port.peer) cables.try_emplace(link_of(end, *port.peer));
  }
  for (const auto& [told, cable] : events.cables) {
    Flaps& flaps = cables[link_in(told, links)];
    const auto count =
        std::ranges::count_if(cable.down, [&](UfmTime at) { return at > from && at <= until; });
    flaps.count += static_cast<std::size_t>(count);
    if (count > 0) flaps.lines.push_back(cable.line);
  }
  return cables;
}

FabricFindings unknown_events(FaultClass fault_class, std::string why) {
  HealthFinding finding = make_finding(events_check, "", CheckStatus::unknown);
  finding.fault_class = fault_class;
  finding.evidence.push_back(std::move(why));
  return {{"", std::move(finding)}};
}

}  // namespace

FabricFindings judge_fabric_events(const UfmEvents& events, const Fabric& links, UfmTime now,
                                   const HealthProfile& profile) {
  if (!events.error.empty() || !events.first || !events.last)
    return unknown_events(FaultClass::setup, events.error);
  // Of a host whose clock or zone is ahead the newest event tells the least that the time can be.
  if (*events.last <= now + zones_apart) now = std::max(now, *events.last);
  std::string why = why_not_whole(events, now);
  if (why.empty() && links.ports.empty()) why = "the links are not known";
  const double limit = std::max(1.0, limit_of(profile, events_check, "flaps", usual_flaps));
  const FabricNames names(links, &events.named);
  WorstFindings findings(profile);
  bool has_unknown = false;
  for (const auto& [link, flaps] : flaps_of(events, links, now - flap_window)) {
    const bool is_bad = static_cast<double>(flaps.count) >= limit;
    if (!is_bad && !why.empty()) {
      has_unknown = true;
      continue;
    }
    HealthFinding finding =
        make_finding(events_check, "", is_bad ? CheckStatus::fail : CheckStatus::pass);
    finding.value = std::to_string(flaps.count);
    finding.expected = "< " + std::to_string(static_cast<long>(limit));
    finding.unit = "1/d";
    if (is_bad) finding.evidence = flaps.lines;
    for (const FabricSubject& subject : names.cable(link)) {
      HealthFinding one = finding;
      if (subject.host.empty()) one.fault_class = FaultClass::infra;
      findings.add(subject, std::move(one));
    }
  }
  FabricFindings all = findings.take();
  const bool is_silent = has_unknown || (all.empty() && !why.empty());
  if (!is_silent) return all;
  // One for all: the log is to blame, no cable.
  for (FabricFinding& one : unknown_events(FaultClass::setup, why)) all.push_back(std::move(one));
  return all;
}

}  // namespace muster
