#include "health/checks/infiniband/counter_checks.h"
#include "health/model/check_words.h"

namespace muster {

namespace counter_rule_table {

using namespace check_words;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr CounterLimit none_per_h(std::string_view name, CheckSeverity severity) {
  return {name, hours(1), severity, false};
}
constexpr CounterLimit per_second(std::string_view name) {
  return {name, seconds(1), only_warn, false};
}
// What another end or the path did.
constexpr CounterLimit below_per_h{"warn_per_h", hours(1), only_warn, true};

// Bits of the registers: PortCounters of the InfiniBand specification, volume 1, chapter 16.
constexpr std::array rules{
    CounterRule{
        "ib.link_downed",
        "counters/link_downed",
        8,
        {none_per_h("drain_per_h", drain), CounterLimit{"stop_per_h", hours(1), stop_drain, true}}},
    CounterRule{"ib.symbol",
                "counters/symbol_error",
                16,
                {per_second("warn_per_s"), CounterLimit{"drain_per_h", hours(1), drain, false}}},
    CounterRule{"ib.recovery",
                "counters/link_error_recovery",
                8,
                {CounterLimit{"warn_per_min", minutes(1), warn_then_drain, false}}},
    CounterRule{"ib.rcv_err", "counters/port_rcv_errors", 16, {per_second("warn_per_s")}},
    CounterRule{"ib.integrity",
                "counters/local_link_integrity_errors",
                4,
                {none_per_h("drain_per_h", drain)}},
    CounterRule{"ib.overrun",
                "counters/excessive_buffer_overrun_errors",
                4,
                {none_per_h("drain_per_h", drain)}},
    CounterRule{"ib.xmit_discards", "counters/port_xmit_discards", 16, {per_second("warn_per_s")}},
    CounterRule{"ib.remote_phys", "counters/port_rcv_remote_physical_errors", 16, {below_per_h}},
    CounterRule{"ib.relay", "counters/port_rcv_switch_relay_errors", 16, {below_per_h}},
    CounterRule{"ib.vl15", "counters/VL15_dropped", 16, {below_per_h}},
    CounterRule{"ib.constraint", "counters/port_rcv_constraint_errors", 8, {below_per_h}},
    CounterRule{"ib.constraint", "counters/port_xmit_constraint_errors", 8, {below_per_h}},
    CounterRule{"ib.xmit_wait", "counters/port_xmit_wait", 32, {per_second("warn_per_s")}},

    CounterRule{
        "ib.transport", "hw_counters/rnr_nak_retry_err", 32, {none_per_h("rnr_per_h", drain)}},
    CounterRule{
        "ib.transport", "hw_counters/local_ack_timeout_err", 32, {per_second("ack_timeout_per_s")}},
    CounterRule{"ib.transport",
                "hw_counters/req_transport_retries_exceeded",
                32,
                {none_per_h("retries_per_h", only_warn)},
                true},
    CounterRule{"ib.transport",
                "hw_counters/packet_seq_err",
                32,
                {none_per_h("packet_seq_per_h", only_warn)},
                true},
    CounterRule{"ib.transport",
                "hw_counters/rx_icrc_encapsulated",
                32,
                {none_per_h("icrc_per_h", only_warn)},
                true},
    CounterRule{"ib.transport",
                "hw_counters/out_of_sequence",
                32,
                {per_second("out_of_sequence_per_s")},
                true},
};

}  // namespace counter_rule_table

std::span<const CounterRule> infiniband_counter_rules() {
  return counter_rule_table::rules;
}

}  // namespace muster
