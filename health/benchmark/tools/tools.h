// The tools that measure one node, or TCP between two: how each is called, a strict reader of what
// it prints, and what a run of it says. The readers are pure; what they do not know is no number.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/performance.h"
#include "health/read/tool_process.h"
#include "scheduler/model/result.h"

namespace muster {

// Processors and memory under load, by stress-ng (https://github.com/ColinIanKing/stress-ng, 0.15
// and 0.18): fp32 matrix products, STREAM, and computations whose results it verifies.

inline constexpr std::string_view processor_corruption_metric = "cpu_sdc_wrong_products";

enum class StressKind { matrix, stream, verify };

struct StressCall {
  StressKind kind = StressKind::matrix;
  int processors = 1;
  std::chrono::seconds time{5};
};
std::vector<std::string> stress_ng_argv(const StressCall& call);

// cpu_gemm_gflops, stream_mb_per_s or cpu_sdc_wrong_products.
std::vector<PerformanceSample> stress_ng_samples(const StressCall& call, const ToolRun& run);

// How fast a directory's disk takes and gives data, by fio (https://github.com/axboe/fio, 3.x): a
// file is written and flushed, then read. It has no name, so that nothing stays behind, and takes
// at most a small part of the free space. Past the page cache where the file system lets it.

enum class DiskWay { write, read };

struct FioCall {
  DiskWay way = DiskWay::write;
  std::string file;
  std::uint64_t bytes = 0;  // of it, from its begin on
  std::chrono::seconds time{10};
  bool is_direct = true;
};
std::vector<std::string> fio_argv(const FioCall& call);

struct FioFigures {
  double mb_per_s = 0;
  std::uint64_t bytes = 0;  // that were written or read
};
// Of the one job of its JSON. An error when the job had one.
Result<FioFigures> read_fio(std::string_view json, DiskWay way);

// What is written: the wish or the allowed part of the free space, in whole blocks.
std::uint64_t disk_probe_bytes(std::uint64_t wanted, std::uint64_t free_bytes);

struct DiskProbeOptions {
  std::string directory;
  std::uint64_t bytes = 4ull << 30;
  std::chrono::seconds time{20};  // writing and reading end after half of it, wherever they are
};

// fio_write_mb_per_s and fio_read_mb_per_s; without a number where there is no room, or where the
// file would lie in memory.
std::vector<PerformanceSample> disk_samples(const DiskProbeOptions& options);

// TCP between two nodes by iperf3 (https://github.com/esnet/iperf, 3.12 and later): as much as
// several streams carry, one way and then the other, and the shortest round trip. One half serves
// both tests on a port, the other connects and measures. iperf3 knows no token: it listens for as
// long as the tests take.

inline constexpr int tcp_streams_max = 64;

struct IperfCall {
  std::string server;   // the host to connect to; empty: this end serves one test
  std::string address;  // that serves; empty: all of this host
  std::uint16_t port = 0;
  int streams = 8;
  std::chrono::seconds time{4};
  bool is_reverse = false;  // the server sends
};
std::vector<std::string> iperf_argv(const IperfCall& call);

struct TcpFigures {
  double gbps = 0;           // what the receiver got
  double round_trip_us = 0;  // the shortest of all streams, as the sender's kernel has it
};
// Of a connecting end's JSON.
Result<TcpFigures> read_iperf(std::string_view json);

// Both tests. What it says is that the tool is missing, if it is, and how long its own host kept it
// waiting.
void serve_tcp(IperfCall call, std::chrono::seconds wait);
// tcp_gbps of the slower way and tcp_latency_us.
void connect_tcp(IperfCall call);

// What `dcgmi diag -j` found, as counts of failed tests: of the node, and of each GPU that a test
// tells of. Its form has no published contract. Read are those of DCGM 2 and 3 ("DCGM GPU
// Diagnostic", results by gpu_id or gpu_ids) and of 4 ("DCGM Diagnostic", results by entity), which
// are the same otherwise. A word or a form that is none of these is unknown.

inline constexpr const char* dcgm_metric = "dcgm_failed_tests";

// How thorough it is: 1 looks at the software, 2 takes minutes, 3 a quarter of an hour, 4 longer.
inline constexpr int dcgm_level_max = 4;

struct DcgmLevel {
  std::chrono::seconds time;   // about
  std::chrono::seconds limit;  // by which it has hung
};
DcgmLevel dcgm_level(int level);

// At least one: why there is no number, else.
std::vector<PerformanceSample> dcgm_samples(const ToolRun& run, std::chrono::seconds limit);

// Runs it, and asks it to end at the limit: it is known to hang.
std::vector<PerformanceSample> run_dcgm(int level, std::chrono::seconds limit);

// Copies between GPUs and hosts and within GPUs, by nvbandwidth
// (https://github.com/NVIDIA/nvbandwidth, 0.4 and later: `--json`). GB/s, but for memory: MB/s.

enum class CopyKind { host, memory, peer };

std::vector<std::string> nvbandwidth_argv(CopyKind kind);

std::vector<PerformanceSample> nvbandwidth_samples(CopyKind kind, const ToolRun& run);

// The bus bandwidth of an all-reduce over the GPUs of a node, by all_reduce_perf of nccl-tests
// (https://github.com/NVIDIA/nccl-tests, 2.x): its table is read, which all versions print.

struct AllReduceCall {
  int gpus = 8;
  // GPUs do not reach each other directly, nor over memory: all of it goes over InfiniBand.
  bool over_infiniband = false;
};
std::vector<std::string> nccl_tests_argv(const AllReduceCall& call);

// allreduce8_gb_per_s of eight GPUs, or ib_loop_allreduce_gb_per_s.
std::vector<PerformanceSample> nccl_tests_samples(const AllReduceCall& call, const ToolRun& run);

// The lines that a benchmark prints, one for each number, at once, so that a kill loses none of
// those before it; health/benchmark/samples.h reads them:
//
//   metric device value
//   metric device error TEXT        it could not be measured
//   metric device absent TEXT       the tool that measures it is not installed
//   metric device COUNT fail TEXT   of counted faults, unless there is none: which;
//   metric device COUNT warn TEXT   `warn` where all of them are slight
//   waited_pct - PERCENT            of its time the tool waited for a processor: no metric
//
// The node itself is the device "-".

inline constexpr std::string_view probe_node_device = "-";
inline constexpr std::string_view probe_waited_word = "waited_pct";
inline constexpr std::size_t probe_text_max = 300;

// One line of readable characters, whatever a tool said.
std::string probe_text(std::string_view text);
std::string last_tool_line(std::string_view text);  // "" where nothing was said

void print_sample(const PerformanceSample& sample);
void print_samples(std::span<const PerformanceSample> samples);
void print_waited(double percent);

struct BenchmarkTool {
  const char* program;
  const char* package;  // that has it
};

PerformanceSample number_of(std::string_view metric, double value, std::string device = {});
PerformanceSample number_of(std::string_view metric, const Result<double>& value);
PerformanceSample no_number(std::string_view metric, const std::string& why);

// Why a run gave no number: the tool is not installed, did not end, or what it said last.
PerformanceSample no_number(std::string_view metric, const BenchmarkTool& tool, const ToolRun& run);
// Of each metric.
std::vector<PerformanceSample> no_numbers(std::span<const std::string_view> metrics,
                                          const std::string& why);
std::vector<PerformanceSample> no_numbers(std::span<const std::string_view> metrics,
                                          const BenchmarkTool& tool, const ToolRun& run);

// "dcgmi ended with 1: …", of a tool that is there.
std::string why_no_number(const BenchmarkTool& tool, const ToolRun& run);

// InfiniBand bandwidth and latency by the perftest tools (https://github.com/linux-rdma/perftest,
// 4.5), which this runs and ends: from one HCA of the node to the next, and between the same HCAs
// of two nodes, one pair after the other. One end serves, the other connects to it over TCP and
// measures. Their JSON is not valid: the table is read. Prints what it finds; the serving end of
// two nodes prints nothing.

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
