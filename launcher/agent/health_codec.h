// What an agent, or `muster health`, keeps of a node's health in a file: JSON, of this build or an
// older one. Unknown fields are passed over, absent ones keep their defaults.
#pragma once

#include <string>
#include <string_view>

#include "health/monitor/monitor_memory.h"
#include "health/monitor/node_health.h"
#include "scheduler/model/result.h"

namespace muster {

struct SavedHealth {
  int version = 1;
  std::string boot_id;
  bool is_settled = false;  // NodeFaultsSeen::settled
  MonitorMemory monitor;
  NodeHealthMemory health;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("version", self.version);
    visit("boot_id", self.boot_id);
    visit("is_settled", self.is_settled);
    visit("monitor", self.monitor);
    visit("health", self.health);
  }
};

std::string encode_health(const SavedHealth& saved);
// The Error says what is wrong with the text.
Result<SavedHealth> decode_health(std::string_view text);

}  // namespace muster
