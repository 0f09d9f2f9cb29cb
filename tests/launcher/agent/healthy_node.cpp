#include "tests/launcher/agent/healthy_node.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "launcher/os/clocks.h"
#include "launcher/os/fd.h"
#include "tests/catch.h"
#include "tests/health/monitor_profile.h"
#include "tests/health/nvml_fixture.h"

namespace muster {

namespace {

constexpr int ports = 8;

void put(const std::string& path, const std::string& text, int flags) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600));
  REQUIRE(file);
  REQUIRE(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

}  // namespace

HealthyNode::HealthyNode() {
  root_.write(node_.files());
  // With a line in it: an event of the driver waits for the log's word then.
  root_.write("/dev/kmsg", "6,1,1000,-;Linux version 5.15.0-1052-azure\n");
  for (int n = 0; n < ports; ++n) {
    const std::string verbs = "/dev/infiniband/uverbs" + std::to_string(n);
    std::filesystem::remove_all(root_.below(verbs));
    root_.write(verbs, "");
  }
  replace(driver_file(), health_data("nvml-h100-8.txt"));
  ::setenv("MUSTER_SYSROOT", root().c_str(), 1);
  ::setenv("MUSTER_FAKE_NVML", driver_file().c_str(), 1);
  ::setenv("MUSTER_NVML_LIB", fake_nvml_path().c_str(), 1);
}

HealthyNode::~HealthyNode() {
  for (const char* name : {"MUSTER_SYSROOT", "MUSTER_FAKE_NVML", "MUSTER_NVML_LIB"})
    ::unsetenv(name);
}

HealthProfile HealthyNode::profile() {
  return monitor_profile();
}

std::string HealthyNode::port(int n) {
  return "mlx5_ib" + std::to_string(n) + ":1";
}

std::string HealthyNode::port_file(int port, const std::string& leaf) const {
  return root() + "/sys/class/infiniband/mlx5_ib" + std::to_string(port) + "/ports/1/" + leaf;
}

void HealthyNode::replace(const std::string& file, const std::string& text) const {
  const std::string fresh = root() + "/fresh";
  put(fresh, text, O_TRUNC);
  REQUIRE(::rename(fresh.c_str(), file.c_str()) == 0);
}

void HealthyNode::append(const std::string& file, const std::string& line) const {
  put(file, line + "\n", O_APPEND);
}

void HealthyNode::log_xid(int gpu, int xid) {
  append(root() + "/dev/kmsg", "3," + std::to_string(++sequence_) + "," +
                                   std::to_string(raw_time().count()) +
                                   ",-;NVRM: Xid (PCI:" + node_.gpu_address(gpu).substr(0, 10) +
                                   "): " + std::to_string(xid) + ", pid=1, name=python");
}

void HealthyNode::report_xid(int gpu, int xid) {
  append(driver_file(), "event 0 " + std::to_string(gpu) + " 0x8 " + std::to_string(xid));
}

void HealthyNode::take_link_down(int port) {
  replace(port_file(port, "phys_state"), "2: Polling\n");
  replace(port_file(port, "state"), "1: DOWN\n");
}

void HealthyNode::count_symbol_errors(int port, int errors) {
  replace(port_file(port, "counters/symbol_error"), std::to_string(errors) + "\n");
}

void HealthyNode::driver_says(const std::string& line) {
  append(driver_file(), line);
}

void HealthyNode::hang_state(int port) {
  const std::string file = port_file(port, "state");
  ::unlink(file.c_str());
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
}

void HealthyNode::hang_call(const std::string& call) {
  append(driver_file(), call + ".hang 1");
}

void HealthyNode::crash_call(const std::string& call) {
  append(driver_file(), call + ".crash 1");
}

void HealthyNode::heal() {
  for (int n = 0; n < ports; ++n) {
    replace(port_file(n, "state"), "4: ACTIVE\n");
  }
  replace(driver_file(), health_data("nvml-h100-8.txt"));
}

}  // namespace muster
