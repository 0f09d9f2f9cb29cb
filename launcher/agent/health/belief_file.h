// What an agent keeps of its node's health for the agent after it: JSON with a version
// (launcher/wire/json_fields.h), replaced as a whole. Owned by HealthMonitor.
#pragma once

#include <string>
#include <string_view>

#include "health/monitor/node_health.h"
#include "health/monitor/node_monitor.h"
#include "runtime/protocol/boot_clock.h"
#include "scheduler/model/result.h"
#include "scheduler/text/fields.h"

namespace muster {

struct SavedHealth {
  std::string boot_id;
  bool is_settled = false;  // NodeFaultsSeen::settled
  MonitorMemory monitor;
  NodeHealthMemory health;

  MUSTER_FIELDS(boot_id, is_settled, monitor, health)
};

// The Error says what is wrong with the text.
Result<SavedHealth> decode_health(std::string_view text);

class BeliefFile {
 public:
  explicit BeliefFile(std::string path) : path_(std::move(path)) {}

  // Nothing of a file that cannot be read.
  SavedHealth load() const;
  void save(const SavedHealth& saved);
  bool is_due() const;  // a minute after the last time

 private:
  std::string path_;
  std::string text_;  // that was written
  BootTime saved_at_{};
};

}  // namespace muster
