#include "health/model/profile_floor.h"

#include <algorithm>
#include <array>

namespace muster {

namespace {

constexpr std::array table{
    PerformanceMetric{"h2d_gb_per_s", "perf.h2d_d2h", "GB/s"},
    // A floor of its own: one that was measured from host to device is too high for the way back.
    PerformanceMetric{"d2h_gb_per_s", "perf.h2d_d2h", "GB/s"},
    PerformanceMetric{"p2p_gb_per_s", "perf.p2p", "GB/s"},
    PerformanceMetric{"hbm_mb_per_s", "perf.hbm", "MB/s"},  // of a copy: what is read and written
    PerformanceMetric{"allreduce2_gb_per_s", "perf.nccl_node", "GB/s"},
    PerformanceMetric{"allreduce4_gb_per_s", "perf.nccl_node", "GB/s"},
    PerformanceMetric{"allreduce8_gb_per_s", "perf.nccl_node", "GB/s"},
    PerformanceMetric{"ib_loop_allreduce_gb_per_s", "perf.nccl_loop", "GB/s"},
    PerformanceMetric{"ib_write_bw_gbps", "perf.ib_loop", "Gb/s"},  // GPU memory
    PerformanceMetric{"ib_write_bw_host_gbps", "perf.ib_pair", "Gb/s"},
    PerformanceMetric{"ib_latency_p99_us", "perf.ib_pair", "us", true},
    PerformanceMetric{"stream_mb_per_s", "perf.stream", "MB/s"},
    PerformanceMetric{"cpu_gemm_gflops", "perf.cpu", "GFLOP/s"},           // fp32, all processors
    PerformanceMetric{"tcp_gbps", "perf.tcp_pair", "Gb/s"},                // the slower way
    PerformanceMetric{"tcp_latency_us", "perf.tcp_pair", "us", true, 50},  // there and back
    // Bus bandwidth of an all-reduce over the ranks of a job, on its own communicator.
    PerformanceMetric{"collective_1mib_gb_per_s", "perf.collective", "GB/s"},
    PerformanceMetric{"collective_64mib_gb_per_s", "perf.collective", "GB/s"},
    PerformanceMetric{"collective_latency_us", "perf.collective", "us", true, 50},  // 8 B
    PerformanceMetric{"fio_read_mb_per_s", "perf.fio", "MB/s", false, 20},
    PerformanceMetric{"fio_write_mb_per_s", "perf.fio", "MB/s", false, 20},
    PerformanceMetric{"dcgm_failed_tests", "perf.dcgm", "tests", true, 0, true},
    PerformanceMetric{"cpu_sdc_wrong_products", "perf.sdc", "products", true, 0, true},
};

}  // namespace

std::span<const PerformanceMetric> performance_metrics() {
  return table;
}

const PerformanceMetric* find_performance_metric(std::string_view name) {
  const auto found = std::ranges::find(table, name, &PerformanceMetric::name);
  return found == table.end() ? nullptr : &*found;
}

}  // namespace muster
