// Who comes to an elastic attempt, who takes part, who goes: I12.
#include <algorithm>

#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "tests/sim/model/audit.h"

namespace muster {

const Attempt* RecordAudit::elastic(const State& before, const JobId& id, AttemptId number) {
  const Job* job = find_job(before, id);
  const Attempt* attempt = find_attempt(before, id, number);
  if (!attempt || !is_elastic(job->spec)) {
    fail(id,
         "I12: its nodes change, but it has no elastic attempt " + std::to_string(number.value));
    return nullptr;
  }
  return attempt;
}

// By a spare of its own, or by a node that is free. An agent holds an attempt once.
void RecordAudit::check(const State& before, Time at, const NodeAdded& record) {
  const Attempt* attempt = elastic(before, record.job, record.attempt);
  if (!attempt) return;
  if (find_spare(*attempt, record.node))
    check_usable(before, at, record.job, record.node);
  else
    check_free(before, at, record.job, record.node);
  const LinkUp* agent = linked_agent(before, record.node);
  for (const AttemptNode& node : attempt->nodes) {
    const bool is_same = !agent || !is_agent_known(node) || node.agent->id == agent->agent_id;
    if (node.id == record.node && is_same) {
      fail(record.job, "I2: " + record.node.value + " is taken twice under one agent");
    }
  }
  const auto& spec = find_job(before, record.job)->spec;
  if (active_nodes(*attempt) >= node_range(spec).most) {
    fail(record.job, "I12: more nodes than it may have");
  }
}

void RecordAudit::check(const State& before, Time at, const JoinBegun& record) {
  const Attempt* attempt = elastic(before, record.job, record.attempt);
  const AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  if (!node) return fail(record.job, "I12: " + record.node.value + " joins but was not taken");
  check_passed(record.job, *node);
  check_usable(before, at, record.job, record.node);
  for (Launched& launched : jobs_[record.job].launched) {
    if (launched.attempt == record.attempt) launched.loud.insert(record.node);
  }
}

// Who stays keeps his place, who comes stands behind.
void RecordAudit::check(const State& before, Time, const MembersChanged& record) {
  const Attempt* attempt = elastic(before, record.job, record.attempt);
  if (!attempt) return;
  const Members& old = attempt->members;
  if (record.members_epoch != old.epoch + 1) fail(record.job, "I12: members skip an epoch");
  std::vector<RankId> kept;
  std::set<int> nodes;
  for (const RankId& id : record.ranks) {
    if (id.value < 0 || id.value >= static_cast<std::int64_t>(attempt->ranks.size())) {
      return fail(record.job, "I12: rank " + std::to_string(id.value) + " is not there");
    }
    nodes.insert(attempt->ranks.at(static_cast<std::size_t>(id.value)).node_index);
    if (std::find(old.ranks.begin(), old.ranks.end(), id) != old.ranks.end()) kept.push_back(id);
  }
  const auto in_old = [&](const RankId& id) {
    return std::find(old.ranks.begin(), old.ranks.end(), id);
  };
  const bool in_order =
      std::is_sorted(kept.begin(), kept.end(),
                     [&](const RankId& a, const RankId& b) { return in_old(a) < in_old(b); }) &&
      std::equal(kept.begin(), kept.end(), record.ranks.begin());
  if (!in_order) fail(record.job, "I12: members change places");
  if (old.epoch > 0 && kept.empty()) fail(record.job, "I12: nobody stays who knows the state");
  if (nodes.size() < node_range(find_job(before, record.job)->spec).least) {
    fail(record.job, "I12: fewer nodes than it needs");
  }
}

void RecordAudit::check(const State& before, Time, const NodeLeaving& record) {
  const Attempt* attempt = elastic(before, record.job, record.attempt);
  const AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  if (!node || node->membership.is_member) {
    fail(record.job, "I12: " + record.node.value + " goes as a member");
  }
}

void RecordAudit::check(const State& before, Time, const NodeReleased& record) {
  const Attempt* attempt = elastic(before, record.job, record.attempt);
  const AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  const bool may_run = node && may_have_started(*attempt, *node);
  if (may_run && !is_quiet(*node)) {
    fail(record.job, "I2: " + record.node.value + " is given away and may still run");
  }
}

}  // namespace muster
