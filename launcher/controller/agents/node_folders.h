// Has nodes remove the folders of jobs that have ended: what a resume brings again at once, outputs
// once they are safe here. A node that is not connected then is told when it names its folders in
// the next greeting. Owned by the Controller, on its thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "launcher/controller/agents/pool.h"
#include "launcher/controller/store/job_leavings.h"
#include "launcher/controller/store/journal.h"
#include "launcher/os/timers.h"

namespace muster {

class NodeFolders final : public NodeListener {
 public:
  // `is_over`: State is as the journal says, and does not hold the job.
  NodeFolders(Timers& timers, const Journal& journal, AgentPool& pool,
              std::function<bool(const JobId&)> is_over);

  void job_over(const JobId& job);
  void node_up(const NodeId& node, const Welcome& welcome) override;

 private:
  std::optional<JobLeavings> leavings(const JobId& job) const;
  void forget(const JobId& job);
  void forget_settled();
  void look_at_some();

  Timers& timers_;
  const Journal& journal_;
  AgentPool& pool_;
  std::function<bool(const JobId&)> is_over_;
  std::deque<std::pair<SteadyTime, JobId>> ended_lately_;  // outputs on nodes stay until then
  std::unique_ptr<Alarm> settled_;
  std::deque<std::pair<NodeId, JobId>> named_;  // by nodes, not yet looked at
  std::unique_ptr<Alarm> look_;
};

}  // namespace muster
