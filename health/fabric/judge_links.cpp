#include <set>

#include "health/fabric/fabric_subject.h"
#include "health/fabric/judges.h"
#include "health/fabric/text_cursor.h"
#include "health/model/check_words.h"

namespace muster {

const CheckSpec fabric_links{.id = "fab.links",
                             .source = "iblinkinfo -l",
                             .says = "4X and the profile's rate; no cabled port is Down or Polling",
                             .severity = check_words::drain,
                             .phases = check_words::when("PF"),
                             .cost = std::chrono::milliseconds(200),
                             .is_of_link = true};

namespace {

constexpr int usual_lanes = 4;  // all cables of today's adapters and switches

struct WantedSpeed {
  int lanes = usual_lanes;
  std::optional<double> gbps;
};

struct JudgedLinks {  // what two readings and a profile are looked at with
  const Fabric& now;
  const Fabric* golden;
  FabricNames names;
  WantedSpeed of_host;
};

WantedSpeed wanted_by(const HealthProfile& profile) {
  WantedSpeed wanted;
  if (profile.ib.width) wanted.lanes = lanes_of(*profile.ib.width).value_or(usual_lanes);
  if (profile.ib.rate_gbps) wanted.gbps = *profile.ib.rate_gbps;
  return wanted;
}

bool is_linked(const Fabric& fabric, const FabricLink& link) {
  const FabricPort* first = find_port(fabric, link.first);
  const FabricPort* second = find_port(fabric, link.second);
  return (first != nullptr && first->peer == link.second) ||
         (second != nullptr && second->peer == link.first);
}

std::optional<double> gbps_of(const FabricPort* port) {
  if (port == nullptr || !port->lanes || !port->lane_gbps) return std::nullopt;
  return *port->lanes * *port->lane_gbps;
}

HealthFinding link_finding(CheckStatus status, std::string value, std::string expected,
                           std::string evidence) {
  return make_finding(fabric_links, "", status, std::move(value), std::move(expected),
                      std::move(evidence));
}

HealthFinding link_warning(std::string value, std::string expected, std::string evidence) {
  HealthFinding finding =
      link_finding(CheckStatus::fail, std::move(value), std::move(expected), std::move(evidence));
  finding.severity = only_warn;
  return finding;
}

// ---- a cable of the golden topology that is not linked

HealthFinding judge_unlinked_end(const JudgedLinks& judged, const FabricEnd& end,
                                 const FabricEnd& other, const FabricPort& port) {
  const std::string here = judged.names.end(end);
  const std::string there = judged.names.end(other);
  const std::string cable = here + " to " + there + ": ";
  if (port.peer) {
    const std::string found = judged.names.end(*port.peer);
    return link_warning(found, there, here + " is cabled to " + found + ", not to " + there);
  }
  if (port.state == PortState::active) {
    return link_finding(CheckStatus::fail, "no answer", "Active",
                        cable + "linked, and what is at the other end does not answer");
  }
  return link_finding(CheckStatus::fail, text_of_state(port), "Active",
                      cable + text_of_state(port));
}

void judge_unlinked(const JudgedLinks& judged, const FabricLink& link, WorstFindings& findings) {
  const auto subjects = judged.names.cable(link);
  const auto add = [&](const HealthFinding& finding) {
    for (const FabricSubject& subject : subjects) findings.add(subject, finding);
  };
  const FabricPort* first = find_port(judged.now, link.first);
  const FabricPort* second = find_port(judged.now, link.second);
  // Where a cable was moved, the socket that it left is down, which is no fault of its own.
  const bool is_moved = (first != nullptr && first->peer) || (second != nullptr && second->peer);
  if (first != nullptr && (first->peer || !is_moved)) {
    add(judge_unlinked_end(judged, link.first, link.second, *first));
  }
  if (second != nullptr && (second->peer || !is_moved)) {
    add(judge_unlinked_end(judged, link.second, link.first, *second));
  }
  if (first == nullptr && second == nullptr) {
    add(link_finding(CheckStatus::unknown, "", "Active",
                     judged.names.end(link.first) + " to " + judged.names.end(link.second) +
                         ": neither end was seen"));
  }
}

// ---- a cable that is linked

WantedSpeed wanted_of(const JudgedLinks& judged, const FabricLink& link, bool is_of_host) {
  WantedSpeed wanted{judged.of_host.lanes, std::nullopt};
  if (is_of_host) wanted.gbps = judged.of_host.gbps;
  if (wanted.gbps || judged.golden == nullptr) return wanted;
  wanted.gbps = gbps_of(find_port(*judged.golden, link.first));
  if (!wanted.gbps) wanted.gbps = gbps_of(find_port(*judged.golden, link.second));
  return wanted;
}

HealthFinding judge_linked_end(const FabricPort& port, const WantedSpeed& wanted,
                               const std::string& cable) {
  const std::string lanes_wanted = std::to_string(wanted.lanes) + "X";
  if (port.state == PortState::down) {
    return link_finding(CheckStatus::fail, text_of_state(port), "Active",
                        cable + text_of_state(port));
  }
  if (port.state != PortState::active) {
    return link_warning(text_of_state(port), "Active",
                        cable + "no subnet manager has brought it up: " + text_of_state(port));
  }
  if (!port.lanes) {
    return link_finding(CheckStatus::unknown, "", lanes_wanted,
                        cable + "its width was not reported");
  }
  const std::string lanes = std::to_string(*port.lanes) + "X";
  if (*port.lanes < wanted.lanes) {
    return link_finding(CheckStatus::fail, lanes, lanes_wanted,
                        cable + lanes + ", " + lanes_wanted);
  }
  if (!wanted.gbps) return link_finding(CheckStatus::pass, lanes, lanes_wanted, "");
  const auto gbps = gbps_of(&port);
  const std::string gbps_wanted = ">= " + decimal_text(*wanted.gbps);
  if (!gbps) {
    return link_finding(CheckStatus::unknown, "", gbps_wanted,
                        cable + "its speed was not reported");
  }
  const bool is_slow = *gbps < *wanted.gbps;
  const std::string found = cable + decimal_text(*gbps) + " Gb/s";
  HealthFinding finding = link_finding(is_slow ? CheckStatus::fail : CheckStatus::pass,
                                       decimal_text(*gbps), gbps_wanted, is_slow ? found : "");
  finding.unit = "Gb/s";
  return finding;
}

void judge_linked(const JudgedLinks& judged, const FabricLink& link, WorstFindings& findings) {
  const std::string cable =
      judged.names.end(link.first) + " to " + judged.names.end(link.second) + ": ";
  for (const FabricSubject& subject : judged.names.cable(link)) {
    const bool is_of_host = !subject.host.empty();
    const WantedSpeed wanted = wanted_of(judged, link, is_of_host);
    for (const FabricEnd& end : {link.first, link.second}) {
      const FabricPort* port = find_port(judged.now, end);
      if (port != nullptr) findings.add(subject, judge_linked_end(*port, wanted, cable));
    }
  }
}

}  // namespace

FabricFindings judge_fabric_links(const Fabric& now, const Fabric* golden,
                                  const HealthProfile& profile) {
  WorstFindings findings(profile);
  if (!now.reading.error.empty() || now.ports.empty()) {
    const std::string& error = now.reading.error;
    findings.add({}, link_finding(CheckStatus::unknown, "", "4X",
                                  error.empty() ? "the tool reported no port" : error));
  } else {
    const JudgedLinks judged{now, golden, FabricNames(now, golden), wanted_by(profile)};
    for (const FabricLink& link : links_of(now)) judge_linked(judged, link, findings);
    for (const FabricLink& link : golden == nullptr ? std::set<FabricLink>() : links_of(*golden)) {
      if (!is_linked(now, link)) judge_unlinked(judged, link, findings);
    }
  }
  return findings.take();
}

}  // namespace muster
