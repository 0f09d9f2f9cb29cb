// InfiniBand bandwidth and latency by the perftest tools (https://github.com/linux-rdma/perftest,
// 4.5), which this runs and ends: from one HCA of the node to the next, and between the same HCAs
// of two nodes, one pair after the other. One end serves, the other connects to it over TCP and
// measures. Their JSON is not valid: the table is read. Prints what it finds; the serving end of
// two nodes prints nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/performance.h"
#include "health/read/tool_process.h"
#include "scheduler/model/result.h"

namespace muster {

enum class PerftestKind { write_bandwidth, write_latency };

struct PerftestCall {
  PerftestKind kind = PerftestKind::write_bandwidth;
  std::string device;  // "mlx5_0"
  int port = 1;
  std::uint16_t tcp_port = 18515;
  std::string server;            // the host to connect to; empty: this end serves
  std::optional<int> gpu;        // whose memory is written; nothing: the host's
  std::chrono::seconds time{5};  // of a bandwidth
};

std::vector<std::string> perftest_argv(const PerftestCall& call);

// Of the last line of numbers below the title: the average, Gb/s, or the 99th percentile, us.
// Nothing when it is not positive, or there is no such table.
std::optional<double> read_perftest(PerftestKind kind, std::string_view output);

// What a run of the measuring end says; without a number, why.
PerformanceSample perftest_sample(const PerftestCall& call, const std::string& metric,
                                  const ToolRun& run);

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
