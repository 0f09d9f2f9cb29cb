#include <algorithm>

#include "scheduler/node/remediation_run.h"
#include "scheduler/state/lookup.h"
#include "tests/sim/model/audit.h"

namespace muster {

namespace {

bool is_within_limit(const State& before, const ComputeTarget& target, const NodeId& self) {
  const auto busy =
      std::count_if(target.nodes.begin(), target.nodes.end(), [&](const NodeAddress& address) {
        const Node* node = find_node(before, address.id);
        return node && node->id != self && takes_remedy_room(*node);
      });
  return static_cast<std::size_t>(busy) < remedies_most(target);
}

}  // namespace

void RecordAudit::check(const State& before, Time, const RemedyBegun& record) {
  const std::string what = "I13: " + record.node.value + " is reset or rebooted ";
  const auto broken = [&](const std::string& why) { violations_.push_back(what + why); };
  const Node* node = find_node(before, record.node);
  if (!node || !node->fault_drain) return broken("without a fault");
  if (node->owner || node->unclean) broken("while a job has it");
  if (node->drained) broken("though a person drained it");
  if (node->remedy) broken("twice at once");
  const std::string once = record.node.value + " " + record.fault.id + " " +
                           std::to_string(to_ms(record.fault.since)) + " " +
                           std::to_string(static_cast<int>(record.step));
  if (!remedies_.insert(once).second) broken("twice for one fault");
  const bool has_room = std::any_of(before.jobs.begin(), before.jobs.end(), [&](const auto& item) {
    return has_node(item.second.target, record.node) &&
           is_within_limit(before, item.second.target, record.node);
  });
  if (!has_room) broken("beside too many others");
}

}  // namespace muster
