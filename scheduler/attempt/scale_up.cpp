// A running elastic attempt gets more nodes, or where its program does not follow changes, the next
// one: then they are reserved, and a checkpoint is waited for. Else one is taken, passes the gate,
// gets the job's files and ports like any other, starts its ranks and waits until the others let it
// in. Nobody who runs notices before that, nor when it fails.
#include <algorithm>

#include "scheduler/attempt/parts.h"
#include "scheduler/placement/allocate.h"
#include "scheduler/placement/candidates.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"
#include "scheduler/state/sentences.h"
#include "scheduler/state/turn.h"

namespace muster {

namespace {

// ---- taking -----------------------------------------------------------------------------------

// A job that waits for nodes of the same target and has no lower priority; or one whose attempt has
// just ended: whether it wants its nodes again is decided in this turn.
bool somebody_claims(const State& state, const Job& job) {
  return std::ranges::any_of(state.jobs, [&](const auto& item) {
    const Job& other = item.second;
    if (active_attempt(other) || other.target.name != job.target.name) return false;
    return is_undecided(other) || other.spec.muster.priority >= job.spec.muster.priority;
  });
}

// It answers, and was not in the attempt, or under another agent: an agent holds an attempt once.
bool may_come(const State& state, const Attempt& attempt, const NodeId& id) {
  const LinkUp* agent = linked_agent(state, id);
  if (!agent || find_node(attempt, id)) return false;
  return std::ranges::none_of(attempt.nodes, [&](const AttemptNode& before) {
    const bool is_same = !is_agent_known(before) || before.agent->id == agent->agent_id;
    return before.id == id && is_same;
  });
}

void take_free(Turn& turn, const Job& job, const Attempt& attempt, std::size_t count) {
  keep_for_restarts(turn);
  std::vector<Candidate> all = new_candidates(turn, job, attempt);
  std::erase_if(all, [&](const Candidate& one) { return !may_come(turn.state, attempt, one.id); });
  for (const NodeId& id : choose_spares(all, count, {}, nullptr)) {
    turn.given.insert(id);
    turn.decide(NodeAdded{job.id, attempt.id, id, "it is free"});
  }
}

void take(Turn& turn, const Job& job, const Attempt& attempt) {
  const std::size_t most = node_range(job.spec).most;
  std::size_t held = active_nodes(attempt);
  if (held >= most || is_finishing(attempt)) return;
  for (const NodeId& id : ready_spares(turn, job, attempt)) {
    if (held == most) return;
    turn.decide(NodeAdded{job.id, attempt.id, id, "it was reserved as a spare"});
    ++held;
  }
  if (held < most && !somebody_claims(turn.state, job)) {
    take_free(turn, job, attempt, most - held);
  }
}

// ---- joining ----------------------------------------------------------------------------------

std::optional<std::string> port_trouble(Turn& turn, const AttemptNode& node, int wanted) {
  if (node.ports) return ports_trouble(node, wanted);
  if (!node.staged || !turn.moment.reached(node.join->asked_at + reserve_limit))
    return std::nullopt;
  return " reserved no port within " + duration_text(reserve_limit);
}

// Before its ranks may have been started.
std::optional<NodeLeaving> unprepared(Turn& turn, const Job& job, const Attempt& attempt,
                                      const AttemptNode& node) {
  if (const auto found = unfit(turn, job, node)) {
    return leaves_for(job, attempt, node.id, reason_of(found->unfitness), found->reason);
  }
  if (!node.checked) return std::nullopt;
  const int wanted = processes_on(turn.state, job.spec, node.id);
  auto what = staging_trouble(turn, node, node.join->asked_at);
  if (!what && linked_agent(turn.state, node.id)) what = port_trouble(turn, node, wanted);
  if (!what) return std::nullopt;
  return leaves_for(job, attempt, node.id, StopReason::start_failed, node.id.value + *what);
}

std::optional<NodeLeaving> unready(Turn& turn, const Job& job, const Attempt& attempt,
                                   std::size_t index) {
  if (auto leaves = started_trouble(turn, job, attempt, index)) return leaves;
  const AttemptNode& node = attempt.nodes[index];
  const auto fails = [&](const std::string& what) {
    return leaves_for(job, attempt, node.id, StopReason::start_failed, node.id.value + what);
  };
  const auto here = ranks_on(attempt, index);
  if (!std::ranges::all_of(here, is_unfinished)) {
    return fails(" cannot join: a rank of it has ended");
  }
  if (node.join->ready_at || !turn.moment.reached(*node.join->begun + join_limit)) {
    return std::nullopt;
  }
  return fails(" was not ready to join within " + duration_text(join_limit));
}

bool is_prepared(const Turn& turn, const AttemptNode& node) {
  return has_passed_gate(turn.state, node) && node.staged && node.ports;
}

// True when a node that was taken does something, or goes: what is ready waits for the next look.
bool lead_in(Turn& turn, const Job& job, const Attempt& attempt) {
  const std::size_t decided = turn.decisions.size();
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    const AttemptNode& node = attempt.nodes[i];
    if (!is_joiner(node)) continue;
    auto leaves =
        node.join->begun ? unready(turn, job, attempt, i) : unprepared(turn, job, attempt, node);
    if (leaves) {
      turn.decide(std::move(*leaves));
    } else if (!node.join->begun && is_prepared(turn, node)) {
      turn.decide(
          JoinBegun{job.id, attempt.id, node.id, processes_on(turn.state, job.spec, node.id)});
    }
  }
  return turn.decisions.size() != decided;
}

std::string joining_text(const std::vector<NodeId>& nodes) {
  return names_text(nodes) + (nodes.size() == 1 ? " joins" : " join");
}

void let_in(Turn& turn, const Job& job, const Attempt& attempt) {
  std::vector<NodeId> ready;
  bool others_come = false;
  std::optional<Time> since;
  for (const AttemptNode& node : attempt.nodes) {
    if (!is_joiner(node)) continue;
    const auto& ready_at = node.join->ready_at;
    const bool is_in = ready_at && node.started;
    others_come = others_come || !is_in;
    if (!is_in) continue;
    ready.push_back(node.id);
    since = std::min(since.value_or(*ready_at), *ready_at);
  }
  if (ready.empty() || is_finishing(attempt)) return;
  if (others_come && !turn.moment.reached(*since + join_together)) return;
  turn.decide(MembersChanged{job.id, attempt.id, attempt.members.epoch + 1,
                             next_members(attempt, {}, ready), joining_text(ready)});
}

// ---- by another attempt -----------------------------------------------------------------------

// What was computed since a checkpoint is lost: only at once.
constexpr Milliseconds just_saved{2000};
// A change pays when it costs a tenth of the time since the last one.
constexpr int starts_between = 10;

// They pass the gate and get the job's files while the others run, and go when somebody waits.
void reserve_more(Turn& turn, const Job& job, const Attempt& attempt, std::size_t room) {
  const std::size_t most = spares_wanted(job) + room;
  if (somebody_claims(turn.state, job)) {
    for (std::size_t i = spares_wanted(job); i < attempt.spares.size(); ++i) {
      turn.decide(SpareDropped{job.id, attempt.id, attempt.spares[i].id, "another job waits"});
    }
    return;
  }
  if (!attempt.saved_at || attempt.spares.size() >= most) return;
  keep_for_restarts(turn);
  add_spares(turn, job, attempt, most - attempt.spares.size());
}

bool pays_to_grow(const Turn& turn, const Job& job, const Attempt& attempt) {
  const Time now = turn.moment.now();
  if (!attempt.saved_at || now - *attempt.saved_at > just_saved) return false;
  const Time began = *attempt.running_since;
  return now - began >=
         std::min(job.spec.muster.elastic.grow_after, starts_between * (began - attempt.placed_at));
}

void grow_by_restart(Turn& turn, const Job& job, const Attempt& attempt) {
  const std::size_t held = attempt.nodes.size();
  const std::size_t most = node_range(job.spec).most;
  if (held >= most || !phase_of<Running>(attempt) || is_finishing(attempt)) return;
  std::size_t ready = 0;
  for (const NodeId& id : ready_spares(turn, job, attempt)) {
    ready += find_spare(attempt, id)->staged ? 1 : 0;
  }
  if (ready == 0 || !pays_to_grow(turn, job, attempt)) {
    return reserve_more(turn, job, attempt, most - held);
  }
  // Whatever else is free when it starts again joins it, too.
  const std::string number =
      held + ready < most ? "at least " + std::to_string(held + ready) : std::to_string(most);
  turn.decide(stop_for(job, attempt, StopReason::rescaled,
                       "continues with " + number + " nodes instead of " + std::to_string(held)));
}

}  // namespace

void grow(Turn& turn, const Job& job, const Attempt& attempt) {
  if (restarts_to_scale(job.spec)) return grow_by_restart(turn, job, attempt);
  if (!attempt.has_members() || !phase_of<Running>(attempt)) return;
  if (!lead_in(turn, job, attempt)) let_in(turn, job, attempt);
  take(turn, job, attempt);
}

}  // namespace muster
