#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "health/fabric/fabric_subject.h"
#include "health/fabric/judges.h"
#include "health/model/check_words.h"

namespace muster {

const CheckSpec fabric_errors{
    .id = "fab.errors",
    .source = "ibqueryerrors --data",
    .says = "each counter's growth in 5 to 10 minutes is within its limit",
    .believe = Persistence::delta,
    .phases = check_words::when("TF"),
    .cost = std::chrono::milliseconds(150),
    .limits = {{"symbol_per_s", "1/s", 10},
               {"symbol_per_h", "1/h", 120},
               {"recovery_per_min", "1/min", 5},
               {"link_downed", "", 0},
               {"rcv_err_per_s", "1/s", 10},
               {"remote_phys_per_h", "1/h", 100},
               {"relay_per_h", "1/h", 100},
               {"xmit_discards_per_s", "1/s", 100},
               {"constraint_per_h", "1/h", 100},
               {"integrity", "", 0},
               {"overrun", "", 0},
               {"vl15_per_h", "1/h", 100}}};

namespace {

struct FabricCounterLimit {
  std::string_view counter;  // as the tools name it
  std::uint64_t max;         // where the counter stays
  std::string_view setting;  // the limit of the row: growth in the window
  double window_s;
  bool is_at_receiver;  // counts what arrived damaged: the fault is at the other end or between
};

constexpr std::array<FabricCounterLimit, 13> fabric_counter_limits{{
    {"SymbolErrorCounter", 65535, "symbol_per_s", 1, true},
    {"SymbolErrorCounter", 65535, "symbol_per_h", 3600, true},
    {"LinkErrorRecoveryCounter", 255, "recovery_per_min", 60, true},
    {"LinkDownedCounter", 255, "link_downed", 3600, false},
    {"PortRcvErrors", 65535, "rcv_err_per_s", 1, true},
    {"PortRcvRemotePhysicalErrors", 65535, "remote_phys_per_h", 3600, false},
    {"PortRcvSwitchRelayErrors", 65535, "relay_per_h", 3600, false},
    {"PortXmitDiscards", 65535, "xmit_discards_per_s", 1, false},
    {"PortXmitConstraintErrors", 255, "constraint_per_h", 3600, false},
    {"PortRcvConstraintErrors", 255, "constraint_per_h", 3600, false},
    {"LocalLinkIntegrityErrors", 15, "integrity", 3600, true},
    {"ExcessiveBufferOverrunErrors", 15, "overrun", 3600, true},
    {"VL15Dropped", 65535, "vl15_per_h", 3600, false},
}};

struct JudgedErrors {
  const FabricErrors& before;
  const FabricErrors& after;
  double between_s;
  FabricNames names;
  const HealthProfile& profile;
};

// A counter that is not listed lies between 0 and the tool's threshold.
struct Range {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

Range range_of(const FabricErrors& errors, const FabricEnd& end, const std::string& counter) {
  const auto port = errors.counters.find(end);
  if (port != errors.counters.end()) {
    const auto found = port->second.find(counter);
    if (found != port->second.end()) return {found->second, found->second};
  }
  if (errors.suppressed.contains(counter)) return {0, std::numeric_limits<std::uint64_t>::max()};
  const auto threshold = errors.thresholds.find(counter);
  return {0, threshold == errors.thresholds.end() ? 0 : threshold->second};
}

std::uint64_t above(std::uint64_t value, std::uint64_t base) {
  return value > base ? value - base : 0;
}

// A single error within a second would be 3,600 an hour: shorter times count as these.
double window_min(const FabricCounterLimit& limit) {
  return limit.window_s >= 3600 ? 300 : limit.window_s >= 60 ? 60 : 1;
}

// What came of one counter of one port.
struct Grown {
  CheckStatus status = CheckStatus::pass;
  std::string text;  // "SymbolErrorCounter +131 in 300 s, more than 120 1/h"; of a pass: empty
  std::uint64_t growth = 0;
  std::string allowed;  // "120 1/h", of a failure
};

std::string text_of_limit(const FabricCounterLimit& limit, double usual) {
  const std::string unit(find_limit(fabric_errors, limit.setting)->unit);
  return decimal_text(usual) + (unit.empty() ? "" : " " + unit);
}

Grown judge_counter(const JudgedErrors& judged, const FabricEnd& end,
                    const FabricCounterLimit& limit) {
  const std::string counter(limit.counter);
  const Range before = range_of(judged.before, end, counter);
  const Range after = range_of(judged.after, end, counter);
  Grown grown;
  const double usual = *limit_of(judged.profile, fabric_errors, limit.setting);
  const double window_s = std::max(judged.between_s, window_min(limit));
  const double allowed = usual * window_s / limit.window_s;
  grown.growth = above(after.low, before.high);
  if (static_cast<double>(grown.growth) > allowed) {
    grown.status = CheckStatus::fail;
    grown.allowed = text_of_limit(limit, usual);
    grown.text = counter + " +" + std::to_string(grown.growth) + " in " +
                 std::to_string(static_cast<long>(judged.between_s)) + " s, more than " +
                 grown.allowed;
    return grown;
  }
  const bool is_reset = after.high < before.low;
  const bool is_full = after.low == limit.max;
  const bool is_hidden = static_cast<double>(above(after.high, before.low)) > allowed;
  if (!is_reset && !is_full && !is_hidden) return grown;
  grown.status = CheckStatus::unknown;
  grown.text = counter + (is_full    ? " is at its maximum: reset it with perfquery -R"
                          : is_reset ? " was reset"
                                     : " is not in the tool's settings");
  return grown;
}

// ---- a port

struct PortGrowth {
  std::vector<Grown> bad;
  std::set<std::string> unknown;     // one counter may have two limits
  bool is_receiving_errors = false;  // any at all, below the limits too
};

bool is_unanswered(const JudgedErrors& judged, const FabricErrors& errors, const FabricEnd& end) {
  const auto known = errors.names.find(end.guid);
  const std::string name =
      known == errors.names.end() ? judged.names.name(end.guid) : known->second;
  return errors.unanswered.contains({name, end.port}) || errors.unanswered.contains({name, 255});
}

PortGrowth judge_port(const JudgedErrors& judged, const FabricEnd& end) {
  PortGrowth port;
  if (is_unanswered(judged, judged.before, end) || is_unanswered(judged, judged.after, end)) {
    port.unknown.insert("did not answer");
    return port;
  }
  for (const FabricCounterLimit& limit : fabric_counter_limits) {
    Grown grown = judge_counter(judged, end, limit);
    if (limit.is_at_receiver && grown.growth > 0) port.is_receiving_errors = true;
    if (grown.status == CheckStatus::unknown) port.unknown.insert(grown.text);
    if (grown.status == CheckStatus::fail) port.bad.push_back(std::move(grown));
  }
  return port;
}

// ---- a cable

// Damage is counted where it arrives.
std::string blame_of(const JudgedErrors& judged, const FabricLink& link, const PortGrowth& first,
                     const PortGrowth& second) {
  if (first.is_receiving_errors && second.is_receiving_errors) {
    return "errors arrive at both ends: the cable or a connector";
  }
  if (!first.is_receiving_errors && !second.is_receiving_errors) return {};
  const FabricEnd& receiver = first.is_receiving_errors ? link.first : link.second;
  const FabricEnd& sender = first.is_receiving_errors ? link.second : link.first;
  return "errors arrive only at " + judged.names.end(receiver) + ": the transmitter of " +
         judged.names.end(sender) + ", or the cable that way";
}

void add_evidence(const std::string& end, const PortGrowth& port, HealthFinding& finding) {
  for (const Grown& grown : port.bad) finding.evidence.push_back(end + ": " + grown.text);
  for (const std::string& text : port.unknown) finding.evidence.push_back(end + ": " + text);
}

HealthFinding judge_cable(const JudgedErrors& judged, const FabricLink& link) {
  const PortGrowth first = judge_port(judged, link.first);
  const PortGrowth second = judge_port(judged, link.second);
  const bool is_bad = !first.bad.empty() || !second.bad.empty();
  const bool is_unknown = !first.unknown.empty() || !second.unknown.empty();
  HealthFinding finding = make_finding(fabric_errors, "",
                                       is_bad       ? CheckStatus::fail
                                       : is_unknown ? CheckStatus::unknown
                                                    : CheckStatus::pass);
  add_evidence(judged.names.end(link.first), first, finding);
  add_evidence(judged.names.end(link.second), second, finding);
  if (!is_bad) return finding;
  const Grown& worst = first.bad.empty() ? second.bad.front() : first.bad.front();
  finding.value = std::to_string(worst.growth);
  finding.expected = "<= " + worst.allowed;
  if (const std::string blame = blame_of(judged, link, first, second); !blame.empty()) {
    finding.evidence.push_back(blame);
  }
  return finding;
}

std::set<FabricLink> links_to_judge(const Fabric& links, const FabricErrors& after) {
  std::set<FabricLink> all = links_of(links);
  std::set<FabricEnd> ends;
  for (const FabricLink& link : all) {
    ends.insert(link.first);
    ends.insert(link.second);
  }
  // A port with counters whose cable nobody knows, or that is down by now, is judged alone.
  for (const auto& [end, counters] : after.counters) {
    if (!ends.contains(end)) all.insert({end, end});
  }
  return all;
}

std::string why_unknown(const FabricErrors& before, const FabricErrors& after,
                        std::chrono::seconds between) {
  for (const FabricErrors* errors : {&before, &after}) {
    if (!errors->reading.error.empty()) return errors->reading.error;
    if (!errors->is_whole()) return "the list of counters is not whole";
    if (errors->failed_queries > 0 && errors->unanswered.empty()) {
      return std::to_string(errors->failed_queries) + " ports did not answer";
    }
  }
  return between.count() > 0 ? "" : "there is no time between the samples";
}

Fabric fabric_named(const FabricErrors& errors) {
  Fabric fabric;
  for (const auto& [guid, name] : errors.names) {
    note_node(fabric, guid, name, FabricNodeKind::unknown);
  }
  return fabric;
}

}  // namespace

bool is_judged_fabric_counter(std::string_view name) {
  return std::ranges::find(fabric_counter_limits, name, &FabricCounterLimit::counter) !=
         fabric_counter_limits.end();
}

FabricFindings judge_fabric_errors(const FabricErrors& before, const FabricErrors& after,
                                   std::chrono::seconds between, const Fabric& links,
                                   const HealthProfile& profile) {
  WorstFindings findings(profile);
  if (const std::string why = why_unknown(before, after, between); !why.empty()) {
    findings.add({}, make_finding(fabric_errors, "", CheckStatus::unknown, "", "", why));
    return findings.take();
  }
  const Fabric named = fabric_named(after);
  const JudgedErrors judged{before, after, static_cast<double>(between.count()),
                            FabricNames(links, &named), profile};
  for (const FabricLink& link : links_to_judge(links, after)) {
    const bool is_alone = link.first == link.second;
    const HealthFinding finding = judge_cable(judged, link);
    for (FabricSubject subject : judged.names.cable(link)) {
      if (is_alone && subject.host.empty()) subject.device = judged.names.end(link.first);
      findings.add(subject, finding);
    }
  }
  return findings.take();
}

}  // namespace muster
