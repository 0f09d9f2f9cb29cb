#include "health/model/performance.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "health/model/check_words.h"
#include "scheduler/model/result.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

constexpr std::array metrics{
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

struct Bound {
  double value;
  std::string from;  // "minimum of the profile"
};

// The one that is hardest to meet. Nothing: neither the profile nor the fleet says what is right.
std::optional<Bound> strictest_bound(const HealthProfile& profile, const PerformanceMetric& metric,
                                     const FleetFigure& fleet) {
  std::optional<Bound> bound;
  const auto floor = profile.floors.find(std::string(metric.name));
  if (floor != profile.floors.end())
    bound = {floor->second, metric.is_ceiling ? "limit of the profile" : "minimum of the profile"};
  if (fleet.nodes < fleet_min_nodes) return bound;
  const double share = metric.fleet_pct / 100;
  const double value = fleet.median * (metric.is_ceiling ? 1 + share : 1 - share);
  if (bound && (metric.is_ceiling ? bound->value <= value : bound->value >= value)) return bound;
  return Bound{value, "fleet median " + number_text(fleet.median) +
                          (metric.is_ceiling ? " +" : " -") + number_text(metric.fleet_pct) + " %"};
}

}  // namespace

std::span<const PerformanceMetric> performance_metrics() {
  return metrics;
}

const PerformanceMetric* find_performance_metric(std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &PerformanceMetric::name);
  return found == metrics.end() ? nullptr : &*found;
}

std::optional<HealthFinding> judge_performance(const HealthProfile& profile,
                                               const PerformanceSample& sample,
                                               const FleetFigure& fleet) {
  const PerformanceMetric* metric = find_performance_metric(sample.metric);
  check(metric != nullptr, "a performance sample of an unknown metric");
  const bool is_count = metric->counts_faults;
  const auto bound =
      is_count ? std::optional(Bound{0, sample.note}) : strictest_bound(profile, *metric, fleet);
  if (!bound) return std::nullopt;
  HealthFinding finding =
      make_finding(*find_check(metric->check), sample.device, CheckStatus::unknown);
  finding.unit = metric->unit;
  const char* sign = is_count ? "" : metric->is_ceiling ? "<= " : ">= ";
  finding.expected = sign + number_text(bound->value);
  if (!sample.value || !std::isfinite(*sample.value)) {
    finding.evidence = {sample.metric + ": " + (sample.error.empty() ? "no number" : sample.error)};
    if (sample.is_absent) finding.fault_class = FaultClass::setup;
    return finding;
  }
  const bool is_met = is_count             ? *sample.value == 0
                      : metric->is_ceiling ? *sample.value <= bound->value
                                           : *sample.value >= bound->value;
  finding.status = is_met ? CheckStatus::pass : CheckStatus::fail;
  if (is_count && sample.is_slight) finding.severity = only_warn;
  finding.value = number_text(*sample.value);
  finding.evidence = {sample.metric};
  if (!bound->from.empty()) finding.evidence[0] += (is_count ? ": " : ", ") + bound->from;
  return finding;
}

std::span<const CheckSpec> performance_checks() {
  using namespace check_words;
  // A measurement is believed at once: it is an average over seconds, and costs minutes to repeat.
  // All of them need an idle node.
  constexpr std::string_view minimum = "minimum of the profile; fleet median -5 %";
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "perf.h2d_d2h",
     .source = "nvbandwidth host_to_device and device_to_host, one GPU at a time", .says = minimum,
     .severity = drain_then_rma, .believe = event, .phases = when("D"), .cost = 30s},
    {.id = "perf.p2p", .source = "nvbandwidth device_to_device", .says = minimum,
     .severity = reset_then_rma, .believe = event, .phases = when("D"), .cost = 30s},
    {.id = "perf.hbm", .source = "nvbandwidth device_local_copy", .says = minimum,
     .severity = rma, .believe = event, .phases = when("DF"), .cost = 10s},
    {.id = "perf.sdc",
     .source = "stress-ng --cpu --matrix --vecmath --verify, `time_min` of the profile",
     .says = "no wrong result", .severity = rma, .believe = event, .phases = when("D"),
     .cost = 120s, .limits = {{"time_min", "min", {}, 1, 120, true}}},
    {.id = "perf.nccl_node", .source = "all_reduce_perf, all GPUs, 1-16 GB", .says = minimum,
     .severity = reset_then_rma, .believe = event, .phases = when("DF"), .cost = 40s},
    {.id = "perf.nccl_loop",
     .source = "all_reduce_perf with NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1", .says = minimum,
     .severity = drain, .believe = event, .phases = when("D"), .cost = 60s},
    {.id = "perf.ib_loop", .source = "ib_write_bw --use_cuda, HCA to HCA in the node",
     .says = minimum, .severity = drain, .believe = event, .phases = when("DF"), .cost = 10s},
    // One pair blames neither of its nodes: rounds with other partners do.
    {.id = "perf.ib_pair", .source = "ib_write_bw and ib_write_lat, each rail", .says = minimum,
     .believe = event, .phases = when("DF"), .cost = 10s},
    {.id = "perf.dcgm", .source = "dcgmi diag -r 1..4 -j, `level` of the profile",
     .says = "all tests of its JSON pass, rc 0", .severity = drain, .believe = event,
     .phases = when("DF"), .cost = 900s, .limits = {{"level", "", 1, 1, 4, true}}},
    {.id = "perf.stream", .source = "stress-ng --stream --verify", .says = minimum,
     .severity = drain, .believe = event, .phases = when("D"), .cost = 60s},
    {.id = "perf.cpu", .source = "stress-ng --matrix --verify: fp32 products on all processors",
     .says = "right, and minimum of the profile; fleet median -5 %", .severity = drain,
     .believe = event, .phases = when("D"), .cost = 10s},
    // As with perf.ib_pair, one pair blames neither.
    {.id = "perf.tcp_pair", .source = "iperf3, each way, between two nodes",
     .says = "minimum of the profile; fleet median -5 %, round trips +50 %", .believe = event,
     .phases = when("DF"), .cost = 10s},
    {.id = "perf.collective", .source = "all-reduce over the ranks of a job",
     .says = "minimum of the profile", .believe = event, .phases = when("DF"), .cost = 20s},
    {.id = "perf.fio", .source = "fio: direct writes and reads of the local scratch",
     .says = "-20 % of the fleet median", .believe = event, .phases = when("D"), .cost = 60s},
  };
  // clang-format on
  return all;
}

}  // namespace muster
