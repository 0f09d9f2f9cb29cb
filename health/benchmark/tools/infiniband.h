// InfiniBand bandwidth and latency by the perftest tools, which this runs and ends: from one HCA of
// the node to the next, and between the same HCAs of two nodes, one pair after the other. Prints
// what it finds; the serving end of two nodes prints nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "health/benchmark/tools/perftest.h"
#include "scheduler/model/result.h"

namespace muster {

struct HcaPort {
  std::string device;
  int port = 1;
};
// "mlx5_0", "mlx5_0:1"
Result<HcaPort> read_hca_port(const std::string& text);

struct InfinibandProbeOptions {
  std::vector<HcaPort> ports;
  std::uint16_t tcp_port = 18515;  // and those after it
  std::chrono::seconds time{5};    // of one bandwidth
  int gpus = 0;                    // whose memory is written, the i-th HCA's that of GPU i
  std::string server;              // of a pair
};

void probe_infiniband_loop(const InfinibandProbeOptions& options);
void serve_infiniband_pair(const InfinibandProbeOptions& options);
void probe_infiniband_pair(const InfinibandProbeOptions& options);

}  // namespace muster
