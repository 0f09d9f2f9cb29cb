// May a job start on this node? Answered from the last verdict when it is young, else from a quick
// run of the cheap checks, and always in time: a hook that hangs takes the node from the cluster.
// Pure: ages come in, the next step goes out.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "health/verdict/node_verdict.h"
#include "scheduler/text/clock.h"

namespace muster {

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
