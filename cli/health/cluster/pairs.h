// `muster health pairs`: which node, rail or path makes a group of nodes slow, found by
// measuring pairs of them through the controller.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "scheduler/text/clock.h"

namespace muster {

struct HealthPairsOptions {
  std::vector<std::string> nodes;
  std::string target;
  std::string profile;                  // a name or a file; empty: the target's
  std::string leaves;                   // a file of lines "node leaf"; empty: the fabric is asked
  std::optional<Milliseconds> time;     // of a measurement
  std::optional<Milliseconds> timeout;  // until a node is reached
  std::optional<std::int64_t> port;     // the first that is used on the nodes
  std::vector<std::string> hcas;        // "mlx5_0:1": by which the fabric is asked; none: any
  bool tcp = false;                     // although the nodes have InfiniBand
  bool idle_only = false;               // nodes that are not idle are left out
  bool force = false;                   // hosts that are busy without a job are measured as well
  bool all = false;                     // passes too
  std::string prometheus_file;
};

int run_health_pairs(const HealthPairsOptions& options, const CommonOptions& common);

}  // namespace muster
