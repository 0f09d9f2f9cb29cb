#include "launcher/controller/remedy_desk.h"

#include "scheduler/lookup.h"
#include "scheduler/record_subject.h"
#include "scheduler/remedy_runs.h"

namespace muster {

namespace {

// Of what an agent says: as of its faults.
constexpr std::size_t lines_most = 10;
constexpr std::size_t text_most = 400;

RemedyEnded within_limits(RemedyEnded ended) {
  if (ended.error.size() > text_most) ended.error.resize(text_most);
  if (ended.lines.size() > lines_most) {
    ended.lines.erase(ended.lines.begin(), ended.lines.end() - lines_most);
  }
  for (std::string& line : ended.lines) {
    if (line.size() > text_most) line.resize(text_most);
  }
  return ended;
}

}  // namespace

RemedyDesk::RemedyDesk(Timers& timers, const State& state, AgentPool& pool, RunCommand run,
                       std::function<void(Observation)> observe)
    : timers_(timers),
      state_(state),
      pool_(pool),
      run_(std::move(run)),
      observe_(std::move(observe)) {}

void RemedyDesk::perform(const std::vector<Record>& fresh) {
  for (const Record& record : fresh) {
    const auto* begun = record_as<RemedyBegun>(record);
    if (begun != nullptr && begun->step == RemedyStep::reboot_from_here) run_here(*begun);
  }
  for (const auto& [id, node] : state_.nodes) {
    if (!node.remedy || node.remedy->ended) continue;
    if (node.remedy->what.step != RemedyStep::reboot_from_here) ask(id, *node.remedy);
  }
}

// Another agent than the one that was meant knows nothing of what that one has done. The time
// counts from the decision: what is asked late must not run when it counts as failed.
void RemedyDesk::ask(const NodeId& node, const RemedyUnderway& underway) {
  const RemedyBegun& begun = underway.what;
  const Milliseconds left = underway.since + command_limit(begun.step) - timers_.wall_now();
  const LinkUp* agent = linked_agent(state_, node);
  AgentConnection* connection = pool_.up(node);
  if (connection == nullptr || agent == nullptr) return;
  if (agent->agent_id != begun.agent_id || connection->welcome().agent_id != begun.agent_id) return;
  std::string& asked = asked_[node];
  if (asked == begun.id || left <= Milliseconds{0}) return;
  asked = begun.id;
  pool_.send(node, RunRemedy{begun.id, begun.step, begun.fault.device, begun.argv, left});
}

void RemedyDesk::run_here(const RemedyBegun& begun) {
  if (!run_) return;
  run_(begun.argv, command_limit(begun.step),
       [this, node = begun.node, id = begun.id](const CommandEnded& ended) {
         observe_(within_limits({node, id, ended.status, ended.error, ended.lines}));
       });
}

void RemedyDesk::node_down(const NodeId& node) {
  asked_.erase(node);
}

bool RemedyDesk::take(const NodeId& node, const FromAgent& message) {
  const auto* run = std::get_if<RemedyRun>(&message);
  if (run == nullptr) return false;
  const Node* known = find_node(state_, node);
  const bool is_awaited = known != nullptr && known->remedy && !known->remedy->ended &&
                          known->remedy->what.id == run->id;
  if (is_awaited) {
    observe_(within_limits({node, run->id, run->status, run->error, run->lines}));
  }
  return true;
}

}  // namespace muster
