#include <array>
#include <chrono>

#include "health/model/check.h"

namespace muster {

namespace performance_catalogue {

using std::chrono::seconds;

// A measurement is believed at once: it is an average over seconds, and costs minutes to repeat.
constexpr Persistence once = Persistence::event;
// Qualification runs every row.
constexpr Phases demand = Phase::on_demand | Phase::qualification;
constexpr Phases demand_or_failure = demand | Phase::on_failure;

// All of them need an idle node.
const std::initializer_list<CheckLimit> dcgm_limits{{"level", "", 1, 1, 4, true}};
const std::initializer_list<CheckLimit> verify_limits{{"time_min", "min", {}, 1, 120, true}};

const std::array table{
    CheckSpec{"perf.h2d_d2h",
              "nvbandwidth host_to_device and device_to_host, one GPU at a time",
              "minimum of the profile; fleet median -5 %",
              {Remedy::drain, Remedy::rma},
              FaultClass::node,
              once,
              demand,
              seconds(30)},
    CheckSpec{"perf.p2p",
              "nvbandwidth device_to_device",
              "minimum of the profile; fleet median -5 %",
              {Remedy::reset, Remedy::rma},
              FaultClass::node,
              once,
              demand,
              seconds(30)},
    CheckSpec{"perf.hbm",
              "nvbandwidth device_local_copy",
              "minimum of the profile; fleet median -5 %",
              {Remedy::rma, {}},
              FaultClass::node,
              once,
              demand_or_failure,
              seconds(10)},
    CheckSpec{.id = "perf.sdc",
              .source = "stress-ng --cpu --matrix --vecmath --verify, `time_min` of the profile",
              .says = "no wrong result",
              .severity = {Remedy::rma, {}},
              .believe = once,
              .phases = demand,
              .cost = seconds(120),
              .limits = verify_limits},
    CheckSpec{"perf.nccl_node",
              "all_reduce_perf, all GPUs, 1-16 GB",
              "minimum of the profile; fleet median -5 %",
              {Remedy::reset, Remedy::rma},
              FaultClass::node,
              once,
              demand_or_failure,
              seconds(40)},
    CheckSpec{"perf.nccl_loop",
              "all_reduce_perf with NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1",
              "minimum of the profile; fleet median -5 %",
              {Remedy::drain, {}},
              FaultClass::node,
              once,
              demand,
              seconds(60)},
    CheckSpec{"perf.ib_loop",
              "ib_write_bw --use_cuda, HCA to HCA in the node",
              "minimum of the profile; fleet median -5 %",
              {Remedy::drain, {}},
              FaultClass::node,
              once,
              demand_or_failure,
              seconds(10)},
    // One pair blames neither of its nodes: rounds with other partners do.
    CheckSpec{"perf.ib_pair",
              "ib_write_bw and ib_write_lat, each rail",
              "minimum of the profile; fleet median -5 %",
              {Remedy::warn, {}},
              FaultClass::node,
              once,
              demand_or_failure,
              seconds(10)},
    CheckSpec{.id = "perf.dcgm",
              .source = "dcgmi diag -r 1..4 -j, `level` of the profile",
              .says = "all tests of its JSON pass, rc 0",
              .severity = {Remedy::drain, {}},
              .believe = once,
              .phases = demand_or_failure,
              .cost = seconds(900),
              .limits = dcgm_limits},
    CheckSpec{"perf.stream",
              "stress-ng --stream --verify",
              "minimum of the profile; fleet median -5 %",
              {Remedy::drain, {}},
              FaultClass::node,
              once,
              demand,
              seconds(60)},
    CheckSpec{"perf.cpu",
              "stress-ng --matrix --verify: fp32 products on all processors",
              "right, and minimum of the profile; fleet median -5 %",
              {Remedy::drain, {}},
              FaultClass::node,
              once,
              demand,
              seconds(10)},
    // As with perf.ib_pair, one pair blames neither.
    CheckSpec{"perf.tcp_pair",
              "iperf3, each way, between two nodes",
              "minimum of the profile; fleet median -5 %, round trips +50 %",
              {Remedy::warn, {}},
              FaultClass::node,
              once,
              demand_or_failure,
              seconds(10)},
    CheckSpec{"perf.collective",
              "all-reduce over the ranks of a job",
              "minimum of the profile",
              {Remedy::warn, {}},
              FaultClass::node,
              once,
              demand_or_failure,
              seconds(20)},
    CheckSpec{"perf.fio",
              "fio: direct writes and reads of the local scratch",
              "-20 % of the fleet median",
              {Remedy::warn, {}},
              FaultClass::node,
              once,
              demand,
              seconds(60)},
};

}  // namespace performance_catalogue

std::span<const CheckSpec> performance_checks() {
  return performance_catalogue::table;
}

}  // namespace muster
