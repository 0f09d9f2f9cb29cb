// The core: what to do next. Pure and level-triggered: the same State and time give the same
// decisions, and a decision that has been applied is not made again.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

// Every decision that State calls for at `now`, in order; apply all of them before asking again.
// Call until it returns none: one decision may open the way to the next.
std::vector<Decision> decide(const State& state, Time now);

// When to call `decide` again if nothing is observed meanwhile; none: only observations matter.
std::optional<Time> next_wake(const State& state, Time now);

// The work that a linked node's agent has been given and has not yet reported on. The shell
// performs it after a decision and again after every reconnection; agents ignore what they have
// already done, and repeat the report.
struct CheckWork {};
struct StageWork {};
struct ReserveWork {
  int count = 1;
};
struct StartWork {};
struct MembersWork {};  // of an elastic attempt: write State's members to the node's file
struct StopWork {
  StopBegun why;
  bool leaves = false;  // the others go on: no signal, and only this node's ranks end
};
struct CollectWork {
  int failures = 0;  // so far: another number is another request
};
using Work =
    std::variant<CheckWork, StageWork, ReserveWork, StartWork, MembersWork, StopWork, CollectWork>;

struct NodeWork {
  JobId job;
  AttemptId attempt;
  NodeId node;
  int node_index = 0;
  Work work;
};

std::vector<NodeWork> pending_work(const State& state);

// Nodes that the shell keeps connected to, or tries to: those of attempts that are going on, those
// whose processes still have to die, and those that were to be taken away or rebooted and may be
// back.
std::set<NodeId> nodes_to_connect(const State& state);

}  // namespace muster
