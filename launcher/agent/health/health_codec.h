// What an agent keeps of its node's health in a file: JSON with a version (versioned_json.h).
#pragma once

#include <string>
#include <string_view>

#include "health/monitor/monitor_memory.h"
#include "health/monitor/node_health.h"
#include "scheduler/model/result.h"

namespace muster {

struct SavedHealth {
  std::string boot_id;
  bool is_settled = false;  // NodeFaultsSeen::settled
  MonitorMemory monitor;
  NodeHealthMemory health;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
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
