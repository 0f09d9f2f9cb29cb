#include "health/checks/infiniband/sources.h"

#include <algorithm>
#include <array>

namespace muster {

namespace {

// Links, the rest of states, what tells devices and ports, counters, the rest: the parts are
// ranges.
constexpr std::array every_source = {
    std::string_view("/sys/class/infiniband/*/ports/*/state"),
    std::string_view("/sys/class/infiniband/*/ports/*/phys_state"),
    std::string_view("/sys/class/infiniband/*/ports/*/rate"),

    std::string_view("/sys/class/infiniband/*/ports/*/lid"),
    std::string_view("/sys/class/infiniband/*/ports/*/sm_lid"),
    std::string_view("/sys/class/infiniband/*/device/net/*/operstate"),
    std::string_view("/sys/class/infiniband/*/device/net/*/carrier_changes"),

    std::string_view("/proc/uptime"),
    std::string_view("/proc/sys/kernel/random/boot_id"),
    std::string_view("/proc/net/route"),
    std::string_view("/sys/class/net/*/bonding/slaves"),
    std::string_view("/sys/class/infiniband/*/node_guid"),
    std::string_view("/sys/class/infiniband/*/device/uevent"),
    std::string_view("/sys/class/infiniband/*/device/physfn/vendor"),
    std::string_view("/sys/class/infiniband/*/device/net/*/address"),
    std::string_view("/sys/class/infiniband/*/ports/*/link_layer"),

    std::string_view("/sys/class/infiniband/*/ports/*/counters/link_downed"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/symbol_error"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/link_error_recovery"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/port_rcv_errors"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/local_link_integrity_errors"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/excessive_buffer_overrun_errors"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/port_xmit_discards"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/port_rcv_remote_physical_errors"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/port_rcv_switch_relay_errors"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/VL15_dropped"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/port_rcv_constraint_errors"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/port_xmit_constraint_errors"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/port_xmit_wait"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/port_xmit_data"),
    std::string_view("/sys/class/infiniband/*/ports/*/counters/port_rcv_data"),
    std::string_view("/sys/class/infiniband/*/ports/*/hw_counters/rnr_nak_retry_err"),
    std::string_view("/sys/class/infiniband/*/ports/*/hw_counters/req_transport_retries_exceeded"),
    std::string_view("/sys/class/infiniband/*/ports/*/hw_counters/local_ack_timeout_err"),
    std::string_view("/sys/class/infiniband/*/ports/*/hw_counters/out_of_sequence"),
    std::string_view("/sys/class/infiniband/*/ports/*/hw_counters/packet_seq_err"),
    std::string_view("/sys/class/infiniband/*/ports/*/hw_counters/rx_icrc_encapsulated"),

    // A table has 128 keys, of which a site uses the first few.
    std::string_view("/sys/class/infiniband/*/ports/*/pkeys/0"),
    std::string_view("/sys/class/infiniband/*/ports/*/pkeys/1"),
    std::string_view("/sys/class/infiniband/*/ports/*/pkeys/2"),
    std::string_view("/sys/class/infiniband/*/ports/*/pkeys/3"),
    std::string_view("/sys/class/infiniband/*/ports/*/gids/0"),
    std::string_view("/sys/class/infiniband/*/fw_ver"),
    std::string_view("/sys/class/infiniband/*/board_id"),
    std::string_view("/sys/class/infiniband/*/hca_type"),
    std::string_view("/sys/class/infiniband/*/device/current_link_speed"),
    std::string_view("/sys/class/infiniband/*/device/current_link_width"),
    std::string_view("/sys/class/infiniband/*/device/max_link_speed"),
    std::string_view("/sys/class/infiniband/*/device/max_link_width"),
    std::string_view("/sys/class/infiniband_verbs/*/ibdev"),
};

constexpr std::array device_nodes = {std::string_view("/dev/infiniband/uverbs*")};

consteval std::size_t index_of(std::string_view source) {
  return static_cast<std::size_t>(std::ranges::find(every_source, source) - every_source.begin());
}
constexpr std::size_t links_end = index_of("/sys/class/infiniband/*/ports/*/lid");
constexpr std::size_t ports_begin = index_of("/proc/uptime");
constexpr std::size_t counters_begin =
    index_of("/sys/class/infiniband/*/ports/*/counters/link_downed");
constexpr std::size_t rest_begin = index_of("/sys/class/infiniband/*/ports/*/pkeys/0");

}  // namespace

std::span<const std::string_view> infiniband_sources() {
  return every_source;
}

std::span<const std::string_view> infiniband_link_sources() {
  return infiniband_sources().first(links_end);
}

std::span<const std::string_view> infiniband_state_sources() {
  return infiniband_sources().first(counters_begin);
}

std::span<const std::string_view> infiniband_counter_sources() {
  return infiniband_sources().subspan(ports_begin, rest_begin - ports_begin);
}

std::span<const std::string_view> infiniband_device_sources() {
  return infiniband_sources().subspan(ports_begin, counters_begin - ports_begin);
}

std::span<const std::string_view> infiniband_device_nodes() {
  return device_nodes;
}

}  // namespace muster
