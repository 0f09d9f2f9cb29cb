// Where the time of an attempt's launch went, node by node, from its records: how each node was
// reached, and how long it took over what every node of the gang has to finish before the next
// step begins. Pure.
//
//   resolve tcp kex auth shell push agent   reaching the node; absent: its connection was kept
//   gate staging ports exec                 what its agent was asked, until it said that it is done
//   output                                  from then to the first byte of a rank
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/record.h"

namespace muster {

struct LaunchPhase {
  std::string name;
  std::int64_t begun_us = 0;  // since the attempt was placed; below 0: it was reached before
  std::int64_t took_us = 0;
};

struct NodeLaunch {
  NodeId node;
  bool kept_connection = false;
  std::string methods;            // key exchange, cipher and MAC; empty: not known, or kept
  std::optional<NodeId> through;  // the node whose agent reached it
  std::vector<LaunchPhase> phases;

  std::int64_t took_us() const;  // its own phases, without waiting for other nodes
  std::int64_t took_us(const std::string& phase) const;
};

struct LaunchProfile {
  AttemptId attempt;
  Time placed;
  std::vector<NodeLaunch> nodes;  // index = node rank
};

// Of the latest attempt; nothing when none was placed. `links`: LinkUp records of that time.
std::optional<LaunchProfile> launch_profile(const std::vector<Record>& records,
                                            const std::vector<Record>& links);

// The node that took longest by itself, and the phase in which it fell behind the others.
struct SlowestNode {
  NodeId node;
  std::int64_t took_us = 0;
  LaunchPhase phase;
  std::string sentence;  // "h12 took 3.1 s, of which 2.4 s shell: a start file …"
};
std::optional<SlowestNode> slowest_node(const LaunchProfile& profile);

// The names of the phases that occurred, in the order in which they happen.
std::vector<std::string> launch_phase_names(const LaunchProfile& profile);

// Of one phase over the nodes that have it, for a share of them between 0 and 1.
std::int64_t quantile_us(const LaunchProfile& profile, const std::string& phase, double share);

}  // namespace muster
