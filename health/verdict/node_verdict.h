// What is to become of a node: the faults that stand, told apart by what they may do. Pure.
#pragma once

#include <string>
#include <vector>

#include "health/verdict/check_rules.h"
#include "health/verdict/streaks.h"
#include "scheduler/text/clock.h"

namespace muster {

// Each list worst first.
struct NodeVerdict {
  Time at;
  std::vector<ActiveFault> drains;       // enforced: no new job
  std::vector<ActiveFault> would_drain;  // the check observes only
  std::vector<ActiveFault> warnings;
  std::vector<SampleWanted> unclear;      // required, and its last answer was no pass
  std::vector<SampleWanted> unconfirmed;  // bad, too few times to be believed

  bool is_drained() const { return !drains.empty(); }
  // The job on the node cannot go on there: now, with a spare in its place.
  bool stops_job() const;
  Remedy worst() const;        // warn: nothing is called for
  std::string reason() const;  // of the drain, by the worst; empty: none
};

NodeVerdict judge_node(const Streaks& streaks, const CheckRules& rules, Time now);

// Why a node that is drained for `reason` stays so, in a sentence; nothing: it may be brought back.
// Only a reason of muster's own is undone, and only when the check that it names passed again and
// nothing else stands.
std::optional<std::string> why_drain_stays(const std::string& reason, const Streaks& streaks,
                                           const CheckRules& rules, const NodeVerdict& verdict);

// What the reason of a node should be made; nothing: leave it. A reason of somebody else stays.
std::optional<std::string> reason_to_set(const std::string& reason, const NodeVerdict& verdict);

}  // namespace muster
