// `muster health pairs`: which node, rail or path makes a group of nodes slow, found by
// measuring pairs of them through the controller.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/health/run.h"
#include "cli/terminal/common_options.h"
#include "scheduler/text/clock.h"

namespace muster {

// `profile` empty: the target's; `timeout`: until a node is reached.
struct HealthPairsOptions : HealthAsked {
  std::string leaves;                // a file of lines "node leaf"; empty: the fabric is asked
  std::optional<Milliseconds> time;  // of a measurement
  std::optional<std::int64_t> port;  // the first that is used on the nodes
  std::vector<std::string> hcas;     // "mlx5_0:1": by which the fabric is asked; none: any
  bool tcp = false;                  // even if the nodes have InfiniBand
  bool idle_only = false;            // nodes that are not idle are left out
  bool force = false;                // hosts that are busy without a job are measured as well
};

int run_health_pairs(const HealthPairsOptions& options, const CommonOptions& common);

// Whether a node can take part in a measurement of several nodes, said by itself: one of the
// probes, `muster agent probe ready`.
//
//   busy TEXT     why it is not idle; left out when it is
//   hca mlx5_0    each InfiniBand device with an active port, "mlx5_0:2" for another than the first
//   guid 0x… mlx5_0   of the port of such a device, as the fabric knows it
//   boot ID       of the machine, which several nodes may share
//   ready         the end

inline constexpr const char* ready_probe = "ready";

struct NodeReadiness {
  std::string busy;  // empty: it is idle
  std::vector<std::string> hcas;
  std::map<std::string, std::uint64_t> guids = {};  // by the name in hcas
  std::string boot_id = {};                         // empty: it does not say
};

// Nothing: the text is no whole answer. Lines that are not known are left out.
std::optional<NodeReadiness> read_readiness(std::string_view text);
std::string text_of(const NodeReadiness& readiness);

// Looks at this host and prints; takes a second. The exit code.
int report_readiness();

}  // namespace muster
