// Commands of the site that run on the controller's host, as children of it. Owned by the
// controller's process, on its thread, which they never hold up: one that cannot be killed, because
// it runs as root or hangs in the kernel, is told of and looked after until it is gone.
//
//   run ─► it ended: told ─► reaped
//      └─ too late: killed, told ─► reaped, some day
#pragma once

#include <map>
#include <memory>

#include "launcher/controller/agents/remediation.h"
#include "launcher/os/timers.h"

namespace muster {

class SiteCommands {
 public:
  explicit SiteCommands(Timers& timers);
  ~SiteCommands();  // kills those that run

  void run(const std::vector<std::string>& argv, Milliseconds limit,
           std::function<void(const CommandEnded&)> done);

 private:
  struct Running;
  Result<std::unique_ptr<Running>> start(const std::vector<std::string>& argv);
  void look(int number);
  void end_late(Running& running);

  Timers& timers_;
  std::map<int, std::unique_ptr<Running>> running_;
  int next_ = 1;
};

}  // namespace muster
