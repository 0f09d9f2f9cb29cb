#include <array>

#include "health/model/catalogue_words.h"

namespace muster {

namespace infiniband_catalogue {

using namespace catalogue_words;
using enum Phase;
using std::chrono::microseconds;

constexpr Phases prolog_only = prolog | qualification;
constexpr Phases always = prolog | periodic | epilog | on_failure | qualification;
constexpr Phases in_job = periodic | epilog | on_failure | qualification;

// One file of sysfs on one device; reading a counter asks the device.
constexpr microseconds state_cost{20};
constexpr microseconds counter_cost{80};

// A state's severity is the worst that it leads to: INIT of ib.state only warns.
constexpr std::array table{
    CheckSpec{"ib.devices", "/sys/class/infiniband", "all ports of the profile",
              stop_reboot_then_rma, node, samples, always, state_cost},
    CheckSpec{"ib.state", "P/state", "4: ACTIVE", stop_drain, node, samples, always, state_cost},
    CheckSpec{"ib.phys", "P/phys_state", "5: LinkUp", drain, node, samples, always, state_cost},
    CheckSpec{"ib.rate", "P/rate", "rate and width of the profile", drain, node, samples,
              prolog | periodic | epilog | qualification, state_cost},
    CheckSpec{"ib.link_layer", "P/link_layer", "InfiniBand", drain, setup, samples, prolog_only,
              state_cost},
    CheckSpec{"ib.lid", "P/lid, P/sm_lid", "nonzero", warn, node, samples, prolog_only, state_cost},
    CheckSpec{"ib.saturated", "P/counters", "below the maximum of the register", warn, node, delta,
              periodic | qualification, counter_cost},
    CheckSpec{"ib.link_downed", "P/counters/link_downed", "no growth", stop_drain, node, delta,
              in_job, counter_cost},
    CheckSpec{"ib.symbol", "P/counters/symbol_error", "<= 10/s and <= 120/h", drain, node, delta,
              in_job, counter_cost},
    CheckSpec{"ib.recovery", "P/counters/link_error_recovery", "<= 5/min", warn_then_drain, node,
              delta, in_job, counter_cost},
    CheckSpec{"ib.rcv_err", "P/counters/port_rcv_errors", "<= 10/s", warn, node, delta, in_job,
              counter_cost},
    CheckSpec{"ib.integrity", "P/counters/local_link_integrity_errors", "no growth", drain, node,
              delta, in_job, counter_cost},
    CheckSpec{"ib.overrun", "P/counters/excessive_buffer_overrun_errors", "no growth", drain, node,
              delta, in_job, counter_cost},
    CheckSpec{"ib.xmit_discards", "P/counters/port_xmit_discards", "<= 100/s", warn, node, delta,
              in_job, counter_cost},
    CheckSpec{"ib.remote_phys", "P/counters/port_rcv_remote_physical_errors", "< 100/h", warn,
              infra, delta, in_job, counter_cost},
    CheckSpec{"ib.relay", "P/counters/port_rcv_switch_relay_errors", "< 100/h", warn, infra, delta,
              in_job, counter_cost},
    CheckSpec{"ib.vl15", "P/counters/VL15_dropped", "< 100/h", warn, infra, delta, in_job,
              counter_cost},
    CheckSpec{"ib.constraint", "P/counters/port_{rcv,xmit}_constraint_errors", "< 100/h", warn,
              node, delta, in_job, 2 * counter_cost},
    CheckSpec{"ib.xmit_wait", "P/counters/port_xmit_wait", "told, normal under incast", warn, infra,
              delta, in_job, counter_cost},
    // Whom a slow or dead peer keeps waiting, the same as the others that talk to it.
    CheckSpec{"ib.transport", "P/hw_counters", "no rnr_nak_retry_err, local_ack_timeout_err <= 1/s",
              drain, node, delta, periodic | on_failure | qualification, 6 * counter_cost,
              often_shared},
    CheckSpec{"ib.traffic", "P/counters/port_{xmit,rcv}_data", "> 0 in 10 min while a job runs",
              warn, node, delta, periodic | qualification, 2 * counter_cost},
    // The subnet manager gives both.
    CheckSpec{"ib.pkey", "P/pkeys", "a full member of the partition", drain, setup, samples,
              prolog_only, 4 * state_cost, often_shared},
    CheckSpec{"ib.gid", "P/gids/0", "nonzero", drain, setup, samples, prolog_only, state_cost,
              often_shared},
    CheckSpec{"ib.fw", "fw_ver, board_id, hca_type", "those of most nodes", warn, node, samples,
              prolog_only, 3 * state_cost},
    CheckSpec{"ib.chardev", "/dev/infiniband/uverbs*", "one of each device opens", drain, setup,
              samples, prolog_only, microseconds(50)},
    CheckSpec{"ib.flap", "kmsg", "< 3 in 24 h", drain, node, event, periodic | qualification,
              microseconds(1)},
    CheckSpec{"ib.mlx5_fatal", "kmsg", "none", stop_reboot_then_rma, node, event,
              periodic | qualification, microseconds(1)},
    CheckSpec{"ib.mlx5_warn", "kmsg", "none", warn, node, event, periodic | qualification,
              microseconds(1)},
    CheckSpec{"ib.pcie", "B/current_link_{speed,width}", "the maximum of the device", drain, node,
              samples, prolog_only, 4 * state_cost},
    CheckSpec{"ib.netdev", "/sys/class/net/ib*/operstate", "up", warn, node, samples, prolog_only,
              2 * state_cost},
};

}  // namespace infiniband_catalogue

std::span<const CheckSpec> infiniband_checks() {
  return infiniband_catalogue::table;
}

}  // namespace muster
