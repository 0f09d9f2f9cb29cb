// Healthy nodes with the noise of real ones, for days: nothing of it may drain a node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "health/profile.h"
#include "tests/health/fake_node.h"

namespace muster {

struct NoiseCount {
  int node_checks = 0;  // runs on nodes
  int drains = 0;       // nodes that were drained at some time
  int would_drain = 0;  // where a check of the kind only observes
  std::vector<std::string> drained;
};

// At least so many node-checks, on nodes of both kinds in turn. All checks are enforced.
NoiseCount replay_noise(const HealthProfile& h100, const HealthProfile& a100, int node_checks);

}  // namespace muster
