#include "scheduler/apply/parts.h"
#include "scheduler/state/remediation.h"

namespace muster {

void apply_one(State& state, Time at, const RemedyBegun& record) {
  Node& node = node_at(state, record.node);
  node.remedies = record.before;
  node.remedies.push_back({at, record.fault.id, record.step, ""});
  node.remedy = RemedyUnderway{at, record, std::nullopt};
  // A fault that stands again under the same drain has climbed: that is what came before the next.
  remember_remedy(state, record.node, record.fault, std::nullopt, at);
}

void apply_one(State& state, Time, const RemedyEnded& record) {
  Node& node = node_at(state, record.node);
  if (node.remedy && node.remedy->what.id == record.id && !node.remedy->ended) {
    node.remedy->ended = record;
  }
}

// What the node said before it went is not what it would say now.
void apply_one(State& state, Time, const RemedyOver& record) {
  Node& node = node_at(state, record.node);
  if (!node.remedy || node.remedy->what.id != record.id) return;
  node.remedy.reset();
  node.remedies.back().failure = record.failure;
  node.is_away = record.is_away;
  if (record.is_away) node.faults_settled = false;
}

}  // namespace muster
