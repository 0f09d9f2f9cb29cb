#include "launcher/controller/agents/remediation.h"

#include <algorithm>

#include "launcher/controller/agents/inbox_files.h"
#include "scheduler/model/record.h"
#include "scheduler/node/remediation_run.h"
#include "scheduler/state/lookup.h"

namespace muster {

namespace {

RemedyEnded within_limits(RemedyEnded ended) {
  limit_text(ended.error);
  limit_lines(ended.lines);
  return ended;
}

// For a command that may be begun yet: what is asked late must not run when it counts as failed,
// nor on a node that a person has taken or calls sound. 0: its agent only tells what it knows.
Milliseconds time_left(const Node& node, Time now) {
  if (node.drained || !node.fault_drain) return Milliseconds{0};
  const Milliseconds limit = command_limit(node.remedy->what.step);
  return std::clamp(node.remedy->since + limit - now, Milliseconds{0}, limit);
}

}  // namespace

RemedyDesk::RemedyDesk(Timers& timers, const State& state, AgentPool& pool, RunCommand run,
                       Observer& observer)
    : timers_(timers), state_(state), pool_(pool), run_(std::move(run)), observer_(observer) {}

void RemedyDesk::perform(const std::vector<Record>& fresh) {
  for (const Record& record : fresh) {
    const auto* begun = record_as<RemedyBegun>(record);
    if (begun != nullptr && begun->step == RemedyStep::reboot_from_here) run_here(*begun);
  }
  for (const auto& [id, node] : state_.nodes) {
    if (!node.remedy || node.remedy->ended) continue;
    if (node.remedy->what.step != RemedyStep::reboot_from_here) ask(node);
  }
}

// Another agent than the one that was meant knows nothing of what that one has done.
void RemedyDesk::ask(const Node& node) {
  const RemedyBegun& begun = node.remedy->what;
  const LinkUp* agent = linked_agent(state_, node.id);
  AgentConnection* connection = pool_.up(node.id);
  if (connection == nullptr || agent == nullptr) return;
  if (agent->agent_id != begun.agent_id || connection->welcome().agent_id != begun.agent_id) return;
  std::string& asked = asked_[node.id];
  if (asked == begun.id) return;
  asked = begun.id;
  pool_.send(node.id, RunRemedy{begun.id, begun.step, begun.fault.device, begun.argv,
                                time_left(node, timers_.wall_now())});
}

void RemedyDesk::run_here(const RemedyBegun& begun) {
  if (!run_) return;
  run_(begun.argv, command_limit(begun.step),
       [this, node = begun.node, id = begun.id](const CommandEnded& ended) {
         observer_.observe(within_limits({node, id, ended.status, ended.error, ended.lines}));
       });
}

void RemedyDesk::node_down(const NodeId& node, const LinkFailure&, std::optional<Interval>) {
  asked_.erase(node);
}

bool RemedyDesk::take(const NodeId& node, const FromAgent& message, std::string_view) {
  const auto* run = std::get_if<RemedyRun>(&message);
  if (run == nullptr) return false;
  const Node* known = find_node(state_, node);
  const bool is_awaited = known != nullptr && known->remedy && !known->remedy->ended &&
                          known->remedy->what.id == run->id;
  if (is_awaited) {
    observer_.observe(within_limits({node, run->id, run->status, run->error, run->lines}));
  }
  return true;
}

}  // namespace muster
