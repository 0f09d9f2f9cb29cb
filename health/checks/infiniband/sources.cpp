#include "health/checks/infiniband/sources.h"

#include "health/checks/infiniband/counter_checks.h"

namespace muster {

namespace {

constexpr std::string_view sources_of_links[] = {"/sys/class/infiniband/*/ports/*/state",
                                                 "/sys/class/infiniband/*/ports/*/phys_state",
                                                 "/sys/class/infiniband/*/ports/*/rate"};
constexpr std::string_view sources_of_states[] = {
    "/sys/class/infiniband/*/ports/*/lid",
    "/sys/class/infiniband/*/ports/*/sm_lid",
    "/sys/class/infiniband/*/device/net/*/operstate",
    "/sys/class/infiniband/*/device/net/*/carrier_changes",
};
constexpr std::string_view sources_of_devices[] = {
    "/proc/uptime",
    "/proc/sys/kernel/random/boot_id",
    "/proc/net/route",
    "/sys/class/net/*/bonding/slaves",
    "/sys/class/infiniband/*/node_guid",
    "/sys/class/infiniband/*/device/uevent",
    "/sys/class/infiniband/*/device/physfn/vendor",
    "/sys/class/infiniband/*/device/net/*/address",
    "/sys/class/infiniband/*/ports/*/link_layer",
};
constexpr std::string_view sources_of_rest[] = {
    // A table has 128 keys, of which a site uses the first few.
    "/sys/class/infiniband/*/ports/*/pkeys/0",
    "/sys/class/infiniband/*/ports/*/pkeys/1",
    "/sys/class/infiniband/*/ports/*/pkeys/2",
    "/sys/class/infiniband/*/ports/*/pkeys/3",
    "/sys/class/infiniband/*/ports/*/gids/0",
    "/sys/class/infiniband/*/fw_ver",
    "/sys/class/infiniband/*/board_id",
    "/sys/class/infiniband/*/hca_type",
    "/sys/class/infiniband/*/device/current_link_speed",
    "/sys/class/infiniband/*/device/current_link_width",
    "/sys/class/infiniband/*/device/max_link_speed",
    "/sys/class/infiniband/*/device/max_link_width",
    "/sys/class/infiniband_verbs/*/ibdev",
};
constexpr std::string_view opened_nodes[] = {"/dev/infiniband/uverbs*"};

std::vector<std::string> joined_sources(
    std::initializer_list<std::span<const std::string_view>> parts) {
  std::vector<std::string> all;
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

void add_counters(std::vector<std::string>& sources) {
  for (const std::string_view file : infiniband_counter_files())
    sources.push_back("/sys/class/infiniband/*/ports/*/" + std::string(file));
}

}  // namespace

std::vector<std::string> infiniband_sources() {
  std::vector<std::string> sources =
      joined_sources({sources_of_links, sources_of_states, sources_of_devices, sources_of_rest});
  add_counters(sources);
  return sources;
}

std::vector<std::string> infiniband_state_sources() {
  return joined_sources({sources_of_links, sources_of_states, sources_of_devices});
}

std::vector<std::string> infiniband_counter_sources() {
  std::vector<std::string> sources = joined_sources({sources_of_devices});
  add_counters(sources);
  return sources;
}

std::span<const std::string_view> infiniband_other_sources() {
  return sources_of_rest;
}

std::span<const std::string_view> infiniband_link_sources() {
  return sources_of_links;
}

std::span<const std::string_view> infiniband_device_sources() {
  return sources_of_devices;
}

std::span<const std::string_view> infiniband_device_nodes() {
  return opened_nodes;
}

}  // namespace muster
