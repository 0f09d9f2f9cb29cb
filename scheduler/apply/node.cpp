#include <algorithm>
#include <set>

#include "scheduler/apply/parts.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/remediation.h"

namespace muster {

namespace {

// Ports die with the agent that held them, and a reboot may have changed what was checked.
void ask_again(const Attempt& attempt, AttemptNode& node) {
  if (phase_of<Gathering>(attempt)) node.checked.reset();
  if (phase_of<Staging>(attempt)) node.staged.reset();
  if (phase_of<Reserving>(attempt)) node.ports.reset();
}

// A fresh agent has proven its predecessor's ranks gone before it answers.
void meet_agent(Attempt& attempt, const LinkUp& up, bool is_fresh, Time at) {
  AttemptNode* spare = find_spare(attempt, up.node);
  // What another agent said counts no more.
  if (spare && is_fresh) *spare = fresh_node(up.node, at);
  AttemptNode* node = find_node(attempt, up.node);
  if (!node) return;
  if (is_preparing(*node) && is_fresh && is_active(*node)) *node = joining_node(up.node, at);
  if (!attempt.launched && is_fresh) ask_again(attempt, *node);
  if (!is_agent_known(*node)) return;
  StartAgent& agent = *node->agent;
  if (agent.id == up.agent_id) return agent.lost.reset();
  const bool rebooted = agent.change == AgentChange::rebooted || agent.boot_id != up.boot_id;
  agent.change = rebooted ? AgentChange::rebooted : AgentChange::restarted;
  lose_ranks(attempt, up.node, at);
}

// The first break counts: tries to connect again fail later.
void hear_nothing(State& state, const Node& known, const LinkDown& down, Time at) {
  Job* job = known.owner ? find_job(state, *known.owner) : nullptr;
  Attempt* attempt = job ? active_attempt(*job) : nullptr;
  AttemptNode* node = attempt ? find_node(*attempt, down.node) : nullptr;
  if (!node || !may_have_started(*attempt, *node)) return;
  if (!node->agent) node->agent.emplace();
  if (!node->agent->lost) node->agent->lost = LinkLoss{at, down.silent_since};
}

// Somebody has looked at it. What was set aside stays counted among those of the last minutes.
void call_sound(Node& node, Time at) {
  node.cleared_at = at;
  node.evidence.clear();
  if (node.set_aside) node.set_aside->until = std::min(node.set_aside->until, at);
  node.fault_drain.reset();
  node.is_away = false;
}

// It may be a spare again of attempts that gave it back.
void offer_again(State& state, const NodeId& id) {
  for (auto& [name, job] : state.jobs) {
    if (Attempt* attempt = active_attempt(job)) std::erase(attempt->spares_dropped, id);
  }
}

}  // namespace

Node& node_at(State& state, const NodeId& id) {
  Node& node = state.nodes[id];
  node.id = id;
  return node;
}

AttemptNode fresh_node(const NodeId& id, Time at) {
  AttemptNode node;
  node.id = id;
  node.joined_at = at;
  return node;
}

AttemptNode joining_node(const NodeId& id, Time at) {
  AttemptNode node = fresh_node(id, at);
  node.join = Join{.asked_at = at};
  return node;
}

void release(State& state, const NodeId& id, const JobId& owner) {
  Node& node = node_at(state, id);
  if (node.owner == owner && !node.unclean) node.owner.reset();
}

void lose_ranks(Attempt& attempt, const NodeId& id, Time at) {
  for (Rank& rank : ranks_on(attempt, id)) {
    if (is_unfinished(rank)) rank.state = RankGone{at};
  }
}

void apply_one(State& state, Time at, const NodeDrainSet& record) {
  Node& node = node_at(state, record.node);
  node.drained = record.drained;
  node.drain_reason = record.drained ? record.reason : "";
  node.move_at.reset();
  if (record.drained && record.move_after) node.move_at = at + *record.move_after;
  if (record.drained) return;
  call_sound(node, at);
  offer_again(state, record.node);
}

void apply_one(State& state, Time at, const LinkUp& record) {
  Node& node = node_at(state, record.node);
  if (node.owner) note_measured(state, *node.owner, record.node, at);
  const LinkUp* last = last_agent(node);
  const bool fresh_agent = last && last->agent_id != record.agent_id;
  const bool rebooted = last && last->boot_id != record.boot_id;
  if (node.fault_drain && rebooted) node.fault_drain->rebooted = true;
  if (std::holds_alternative<Unlinked>(node.link)) offer_again(state, record.node);
  node.link = Linked{record, at};
  node.is_away = false;
  node.faults_heard.clear();
  if (node.fault_drain) node.faults_settled = false;  // somebody may have seen to it meanwhile
  if (node.notice && node.notice->boot_id != record.boot_id) node.notice.reset();
  if (node.unclean && fresh_agent) {
    node.unclean.reset();
    node.owner.reset();
  }
  if (!node.owner) return;
  Job* job = find_job(state, *node.owner);
  if (Attempt* attempt = job ? active_attempt(*job) : nullptr) {
    meet_agent(*attempt, record, fresh_agent, at);
  }
}

void apply_one(State& state, Time at, const LinkDown& record) {
  Node& known = node_at(state, record.node);
  if (known.owner) note_measured(state, *known.owner, record.node, at);
  hear_nothing(state, known, record, at);
  const bool was_lost = std::holds_alternative<Unlinked>(known.link);
  if (!was_lost) {
    std::optional<LinkUp> last;
    if (const LinkUp* agent = last_agent(known)) last = *agent;
    known.link = Unlinked{record.failure, at, last, at, {}, at - record.silent};
  }
  auto& lost = std::get<Unlinked>(known.link);
  if (record.is_untried && was_lost) return lost.sought_since.reset();
  lost.failure = record.failure;
  lost.failed_at = at;
  if (!lost.sought_since) lost.sought_since = at;
  if (record.is_untried) lost.sought_since.reset();
}

void apply_one(State& state, Time at, const NodeNotice& record) {
  Node& node = node_at(state, record.node);
  node.notice.reset();
  if (record.over) return;
  node.notice = LeaveNotice{at, std::nullopt, record.source, record.boot_id, record.agent_id};
  if (record.leaves_in) node.notice->leaves_at = at + *record.leaves_in;
}

void apply_one(State& state, Time, const NodeSuspected& record) {
  node_at(state, record.node).evidence = record.evidence;
}

void apply_one(State& state, Time at, const NodeSetAside& record) {
  node_at(state, record.node).set_aside = Cordon{at, record.until, record.reason};
}

void apply_one(State& state, Time at, const BreakerOpened& record) {
  Breaker& breaker = state.breakers[record.target];
  breaker.open_since = at;
  breaker.reason = record.reason;
  breaker.is_check = record.is_check;
  if (!record.is_check) return;
  const std::string_view check = check_of_breaker(record.target);
  const bool is_of_all = check == record.target;
  forget_remedies(state, check, at - record.window, is_of_all ? nullptr : &record.nodes);
}

void apply_one(State& state, Time at, const BreakerReset& record) {
  const Breaker armed{std::nullopt, "", false, at};
  state.breakers[record.target] = armed;
  for (auto& [name, breaker] : state.breakers) {
    if (breaker.is_check && names_breaker(record.target, name)) breaker = armed;
  }
}

void apply_one(State& state, Time at, const NodeFaultsSeen& record) {
  Node& node = node_at(state, record.node);
  std::map<std::string, Time> told;
  std::set<std::string> heard;
  const std::string drain = node.fault_drain ? node.fault_drain->fault.id : "";
  if (node.faults_heard.contains(drain)) heard.insert(drain);
  for (const NodeFault& fault : record.faults) {
    heard.insert(fault.id);
    const auto known = node.faults_told.find(fault.id);
    told.emplace(fault.id, known == node.faults_told.end() ? at : known->second);
    if (recurs(fault)) remember_remedy(state, record.node, fault, record.owner, at);
  }
  node.faults = record.faults;
  node.faults_told = std::move(told);
  node.faults_heard = std::move(heard);
  node.faults_settled = record.settled;
}

void apply_one(State& state, Time at, const NodeFaulted& record) {
  Node& node = node_at(state, record.node);
  node.fault_drain = FaultDrain{at, record.fault, record.reason};
  remember_remedy(state, record.node, record.fault, record.owner, at);
  Job* job = node.owner ? find_job(state, *node.owner) : nullptr;
  Attempt* attempt = job ? active_attempt(*job) : nullptr;
  if (attempt && attempt->launched && find_node(*attempt, record.node)) {
    attempt->faulted.push_back(record);
  }
}

void apply_one(State& state, Time, const NodeFaultOver& record) {
  node_at(state, record.node).fault_drain.reset();
}

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
