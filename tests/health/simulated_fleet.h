// What becomes of nodes whose agents say what they believe: the scheduler itself, with a clock that
// is moved by hand, and a job that waits for each target's nodes.
#pragma once

#include <string>
#include <vector>

#include "health/verdict/node_verdict.h"
#include "scheduler/state/state.h"

namespace muster {

struct FleetDrain {
  NodeId node;
  std::string reason;
  std::string what;
  Time at;
};

class SimulatedFleet {
 public:
  explicit SimulatedFleet(Time begin) : now_(begin) {}

  // Nodes whose faults have a cause that they share are told as any others: what would become of
  // them then.
  void forget_shared_causes() { forgets_shared_causes_ = true; }

  void add_target(const std::string& name, const std::vector<NodeId>& nodes,
                  const HealthProfile& profile);
  // By the node's agent, if it is news.
  void tell(const NodeId& node, const NodeVerdict& verdict);
  void pass_until(Time time);

  Time now() const { return now_; }
  const State& state() const { return state_; }
  const std::vector<FleetDrain>& drains() const { return drains_; }
  bool has_drained(const NodeId& node) const;
  // Checks that drain no more nodes.
  const std::vector<std::string>& open_breakers() const { return open_breakers_; }

 private:
  void settle();
  void note(const Decision& decision);

  Time now_;
  bool forgets_shared_causes_ = false;
  State state_;
  std::vector<FleetDrain> drains_;
  std::vector<std::string> open_breakers_;
};

}  // namespace muster
