// What is to become of a node: the faults that stand, told apart by what they may do. Pure.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

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

// May a job start on this node? Answered from the last verdict when it is young, else from a quick
// run of the cheap checks, and always in time: a hook that hangs takes the node from the cluster.
// Pure: ages come in, the next step goes out.

inline constexpr Milliseconds verdict_fresh{60'000};
inline constexpr Milliseconds prolog_deadline{10'000};
// What writing the answer may take, on a busy node.
inline constexpr Milliseconds prolog_margin{500};

struct StartJob {};
// Nothing is proven against the node, and nothing for it: another one is safer.
struct TakeSpare {
  std::string why;
};
struct RefuseNode {
  std::string reason;  // of the drain
};
using PrologAnswer = std::variant<StartJob, TakeSpare, RefuseNode>;

struct RunQuick {
  Milliseconds after;  // not before: two samples within a second are one
  Milliseconds limit;  // for the run itself
};
struct WaitForRun {
  Milliseconds most;
};
using PrologStep = std::variant<PrologAnswer, RunQuick, WaitForRun>;

struct PrologQuestion {
  const NodeVerdict* verdict = nullptr;  // the last one; none: nobody looked at the node yet
  Milliseconds verdict_age{0};           // by a clock that nobody sets
  Milliseconds waited{0};                // since the hook was called
  bool is_running = false;               // a quick run is under way
};

PrologStep next_prolog_step(const PrologQuestion& question);

}  // namespace muster
