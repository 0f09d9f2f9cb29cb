// A healthy node of eight H100 and eight InfiniBand ports on disk, for a real agent: its files
// below a root of their own, and the file of the fake driver library. Faults are injected while it
// is read. The environment of this process names both; one at a time.
#pragma once

#include <string>

#include "scheduler/model/health_profile.h"
#include "tests/health/fake_host.h"
#include "tests/health/fake_node.h"

namespace muster {

class HealthyNode {
 public:
  HealthyNode();
  HealthyNode(const HealthyNode&) = delete;
  HealthyNode& operator=(const HealthyNode&) = delete;
  ~HealthyNode();

  const std::string& root() const { return root_.path(); }
  static HealthProfile profile();
  static std::string port(int n);  // "mlx5_ib3:1"

  // Nobody reads half of a change.
  void log_xid(int gpu, int xid);
  void report_xid(int gpu, int xid);  // as an event of the driver, without a line in the log
  void take_link_down(int port);
  void count_symbol_errors(int port, int errors);
  // From its next call on: "gpu3.remap.pending 1".
  void driver_says(const std::string& line);

  // Whoever reads the port's state waits for ever, until the node is whole again.
  void hang_state(int port);
  void hang_call(const std::string& call);   // "gpu3.nvmlDeviceGetSerial"
  void crash_call(const std::string& call);  // takes the process with it
  void heal();
  std::string port_file(int port, const std::string& leaf) const;

 private:
  void replace(const std::string& file, const std::string& text) const;
  void append(const std::string& file, const std::string& line) const;
  std::string driver_file() const { return root_.path() + "/driver.txt"; }

  FakeNode node_{FakeKind::h100};
  FakeRoot root_;
  int sequence_ = 100;
};

}  // namespace muster
