// The perftest tools, which measure InfiniBand between two ports: their command lines, and what
// they print (https://github.com/linux-rdma/perftest, 4.5). One end serves, the other connects to
// it over TCP and measures. Their JSON is not valid: the table is read. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/performance.h"
#include "health/read/tool_process.h"

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

std::string perftest_program(PerftestKind kind);
std::vector<std::string> perftest_argv(const PerftestCall& call);

// The average of the last line, Gb/s; nothing when there is no table in Gb/s.
std::optional<double> read_write_bandwidth(std::string_view output);
// The 99th percentile of the last line, us.
std::optional<double> read_write_latency(std::string_view output);

// What a run of the measuring end says; without a number, why.
PerformanceSample perftest_sample(const PerftestCall& call, const std::string& metric,
                                  const ToolRun& run);

}  // namespace muster
