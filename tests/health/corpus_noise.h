// A fleet of healthy nodes with the noise of real ones, all at the same time, watched by agents and
// judged by the scheduler: nothing of it may drain a node. The file server goes away for all of
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "health/model/profile.h"
#include "tests/health/fake_node.h"

namespace muster {

// What else happens in a replay.
struct NoisePlan {
  int node_checks = 0;  // runs on nodes, at least
  // Node 0 loses a GPU, the file server is away for node 1 alone and for good.
  bool breaks_nodes = false;
  // The scheduler does not know which faults nodes share.
  bool forgets_shared_causes = false;
};

struct NoiseCount {
  int node_checks = 0;  // runs on nodes
  int nodes = 0;
  int stalled = 0;  // that told of the file server
  int drains = 0;   // nodes that were drained at some time
  int broken_drained = 0;
  std::vector<std::string> drained;
  std::vector<std::string> open_breakers;
};

// On nodes of both kinds in turn. All checks are enforced.
NoiseCount replay_noise(const HealthProfile& h100, const HealthProfile& a100,
                        const NoisePlan& plan);

}  // namespace muster
