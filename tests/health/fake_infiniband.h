// The files of a healthy node with InfiniBand devices, to be broken by a test: by default eight
// ConnectX-7 at NDR, each with one port, one IPoIB interface and one verbs node, and an Ethernet
// default route. Forms are those of Linux drivers/infiniband/core/sysfs.c; the values are
// synthetic.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

class FakeInfiniband {
 public:
  explicit FakeInfiniband(int devices = 8) {
    files_.add("/proc/uptime", "86400.25 700000.00\n");
    files_.add("/proc/sys/kernel/random/boot_id", "6f1d2c3b-0000-4000-8000-000000000001\n");
    default_route_by("eth0");
    for (int n = 0; n < devices; ++n) add_device(n);
  }

  const SourceFiles& files() const& { return files_; }
  void files() && = delete;  // a view of what is gone

  void write(const std::string& path, std::string text) { files_.add(path, std::move(text)); }
  void break_file(const std::string& path, std::string error, bool is_missing = false) {
    files_.add(path, FileReading{{}, std::move(error), is_missing});
  }
  // "mlx5_3"
  static std::string device(int n) { return "mlx5_" + std::to_string(n); }
  static std::string device_path(int n, std::string_view leaf) {
    return "/sys/class/infiniband/" + device(n) + "/" + std::string(leaf);
  }
  static std::string port_path(int n, std::string_view leaf) {
    return device_path(n, "ports/1/" + std::string(leaf));
  }
  static std::string pci_address(int n) {
    char address[16];
    std::snprintf(address, sizeof address, "0000:%02x:00.0", 0x1a + n * 0x10);
    return address;
  }

  void write_port(int n, std::string_view leaf, std::string text) {
    write(port_path(n, leaf), std::move(text));
  }
  void write_device(int n, std::string_view leaf, std::string text) {
    write(device_path(n, leaf), std::move(text));
  }
  // "symbol_error"
  void count(int n, std::string_view counter, std::uint64_t value) {
    write_port(n, "counters/" + std::string(counter), std::to_string(value) + "\n");
  }
  void count_hw(int n, std::string_view counter, std::uint64_t value) {
    write_port(n, "hw_counters/" + std::string(counter), std::to_string(value) + "\n");
  }
  void booted_ago(int seconds) { write("/proc/uptime", std::to_string(seconds) + ".50 1.00\n"); }
  void default_route_by(const std::string& interface) {
    write("/proc/net/route",
          "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
              interface + "\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" +
              "ib0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
  }
  void make_virtual_function(int n) { write_device(n, "device/physfn/vendor", "0x15b3\n"); }
  // As if the board were pulled: its whole tree is gone.
  void remove_device(int n) {
    SourceFiles left;
    for (const auto& [path, reading] : files_.all()) {
      if (!path.starts_with(device_path(n, ""))) left.add(path, reading);
    }
    files_ = std::move(left);
  }
  void link_down(int n) {
    write_port(n, "state", "1: DOWN\n");
    write_port(n, "phys_state", "2: Polling\n");
    write_port(n, "rate", "10 Gb/sec (4X SDR)\n");
    write_port(n, "lid", "0x0\n");
    write_device(n, "device/net/ib" + std::to_string(n) + "/operstate", "down\n");
  }
  void wait_for_subnet_manager(int n) {
    write_port(n, "state", "2: INIT\n");
    write_port(n, "lid", "0x0\n");
    write_port(n, "sm_lid", "0x0\n");
  }

  // Of such a node.
  static HealthProfile profile() {
    HealthProfile profile;
    profile.name = "h100-8x-ndr";
    profile.ib.ports = {"mlx5_[0-7]:1"};
    profile.ib.rate_gbps = 400;
    profile.ib.width = "4X";
    return profile;
  }

 private:
  void add_device(int n) {
    const std::string index = std::to_string(n);
    char guid[24];
    std::snprintf(guid, sizeof guid, "b83f:d203:00c5:%04x", n + 1);
    write_device(n, "node_guid", std::string(guid) + "\n");
    write_device(n, "fw_ver", "28.39.1002\n");
    write_device(n, "board_id", "MT_0000000838\n");
    write_device(n, "hca_type", "MT4129\n");
    write_device(n, "device/uevent",
                 "DRIVER=mlx5_core\nPCI_CLASS=20700\nPCI_ID=15B3:1021\nPCI_SLOT_NAME=" +
                     pci_address(n) + "\n");
    for (const char* which : {"current", "max"}) {
      const std::string link = "device/" + std::string(which) + "_link_";
      write_device(n, link + "speed", "32.0 GT/s PCIe\n");
      write_device(n, link + "width", "16\n");
    }
    const std::string net = "device/net/ib" + index + "/";
    write_device(n, net + "operstate", "up\n");
    write_device(n, net + "carrier_changes", "2\n");
    write_device(n, net + "address", "00:00:10:49:fe:80:00:00:00:00:00:00\n");
    write("/sys/class/infiniband_verbs/uverbs" + index + "/ibdev", device(n) + "\n");
    write("/dev/infiniband/uverbs" + index, "");
    add_port(n, guid);
  }

  void add_port(int n, const std::string& guid) {
    write_port(n, "state", "4: ACTIVE\n");
    write_port(n, "phys_state", "5: LinkUp\n");
    write_port(n, "rate", "400 Gb/sec (4X NDR)\n");
    write_port(n, "link_layer", "InfiniBand\n");
    write_port(n, "lid", "0x1" + std::to_string(n) + "\n");
    write_port(n, "sm_lid", "0x1\n");
    write_port(n, "gids/0", "fe80:0000:0000:0000:" + guid + "\n");
    write_port(n, "pkeys/0", "0xffff\n");
    for (const char* index : {"1", "2", "3"})
      write_port(n, "pkeys/" + std::string(index), "0x0000\n");
    for (const char* counter : {"symbol_error",
                                "link_error_recovery",
                                "link_downed",
                                "port_rcv_errors",
                                "port_rcv_remote_physical_errors",
                                "port_rcv_switch_relay_errors",
                                "port_xmit_discards",
                                "port_xmit_constraint_errors",
                                "port_rcv_constraint_errors",
                                "local_link_integrity_errors",
                                "excessive_buffer_overrun_errors",
                                "VL15_dropped",
                                "port_xmit_data",
                                "port_rcv_data",
                                "port_xmit_packets",
                                "port_rcv_packets",
                                "port_xmit_wait",
                                "unicast_xmit_packets",
                                "unicast_rcv_packets",
                                "multicast_xmit_packets",
                                "multicast_rcv_packets"})
      count(n, counter, 0);
    for (const char* counter : {"rx_write_requests",
                                "rx_read_requests",
                                "rx_atomic_requests",
                                "out_of_buffer",
                                "out_of_sequence",
                                "duplicate_request",
                                "rnr_nak_retry_err",
                                "packet_seq_err",
                                "implied_nak_seq_err",
                                "local_ack_timeout_err",
                                "resp_local_length_error",
                                "resp_cqe_error",
                                "req_cqe_error",
                                "req_remote_invalid_request",
                                "req_remote_access_errors",
                                "resp_remote_access_errors",
                                "resp_cqe_flush_error",
                                "req_cqe_flush_error",
                                "req_transport_retries_exceeded",
                                "req_rnr_retries_exceeded",
                                "roce_adp_retrans",
                                "roce_adp_retrans_to",
                                "roce_slow_restart",
                                "roce_slow_restart_cnps",
                                "roce_slow_restart_trans",
                                "rx_icrc_encapsulated",
                                "lifespan"})
      count_hw(n, counter, 0);
  }

  SourceFiles files_;
};

}  // namespace muster
