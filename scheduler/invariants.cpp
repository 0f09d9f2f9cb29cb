#include "scheduler/invariants.h"

#include <algorithm>

#include "scheduler/apply.h"
#include "scheduler/gpu_fit.h"
#include "scheduler/lookup.h"
#include "scheduler/membership.h"
#include "scheduler/node_standing.h"
#include "scheduler/record_subject.h"

namespace muster {

namespace {

void check_ownership(const State& state, const Job& job, const Attempt& attempt,
                     std::map<NodeId, JobId>& holders, std::vector<std::string>& found) {
  std::vector<AttemptNode> held = attempt.nodes;
  held.insert(held.end(), attempt.spares.begin(), attempt.spares.end());
  for (const AttemptNode& node : held) {
    if (node.released) continue;
    const auto [holder, is_first] = holders.emplace(node.id, job.id);
    if (!is_first) {
      found.push_back("I1: " + node.id.value + " is in attempts of " + holder->second.value +
                      " and " + job.id.value);
    }
    const Node* known = find_node(state, node.id);
    if (!known || known->owner != job.id) {
      found.push_back("I1: " + node.id.value + " is used but not owned by " + job.id.value);
    }
  }
}

void check_owner(const State& state, const Node& node, std::vector<std::string>& found) {
  if (!node.owner || node.unclean) return;
  const Job* job = find_job(state, *node.owner);
  const Attempt* attempt = job ? active_attempt(*job) : nullptr;
  const auto is_it = [&](const AttemptNode& n) { return n.id == node.id; };
  const bool holds =
      attempt && (find_node(*attempt, node.id) ||
                  std::any_of(attempt->spares.begin(), attempt->spares.end(), is_it));
  if (!holds) {
    found.push_back("I1: " + node.id.value + " is owned by " + node.owner->value +
                    ", which does not use it");
  }
}

void check_member(const Job& job, const Attempt& attempt, const AttemptNode& node,
                  std::vector<std::string>& found) {
  const std::string who = "I12: " + node.id.value + " of " + job.id.value;
  if (node.members_told > attempt.members.epoch) {
    found.push_back(who + " was told of members that there never were");
  }
  if (node.member && !node.is_active()) found.push_back(who + " goes, and is a member");
  if (node.member && !node.may_have_started()) found.push_back(who + " is a member without ranks");
  const bool is_elastic_node = node.taken_late || node.member || node.leaves || node.released;
  if (is_elastic_node && !is_elastic(job.spec)) {
    found.push_back(who + " comes or goes, but the job is not elastic");
  }
}

// The list holds every rank of each node that is a member, once, and no other.
void check_members(const Job& job, const Attempt& attempt, std::vector<std::string>& found) {
  for (const AttemptNode& node : attempt.nodes) check_member(job, attempt, node, found);
  std::size_t ranks = 0;
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    if (attempt.nodes[i].member) ranks += ranks_on(attempt, i).size();
  }
  std::set<RankId> listed;
  for (const RankId& id : attempt.members.ranks) {
    const bool is_rank = id.value >= 0 && static_cast<std::size_t>(id.value) < attempt.ranks.size();
    if (!is_rank || !takes_part(attempt, attempt.ranks[static_cast<std::size_t>(id.value)]) ||
        !listed.insert(id).second) {
      found.push_back("I12: rank " + std::to_string(id.value) + " of " + job.id.value +
                      " is listed and is no member, or is twice");
    }
  }
  if (listed.size() != ranks) found.push_back("I12: members of " + job.id.value + " are left out");
}

// Ranks lie node by node and are numbered on: `ranks_on` and every agent rely on it.
void check_ranks(const Job& job, const Attempt& attempt, std::vector<std::string>& found) {
  int node_index = 0;
  for (std::size_t i = 0; i < attempt.ranks.size(); ++i) {
    const Rank& rank = attempt.ranks[i];
    const bool is_in_order = rank.id.value == static_cast<std::int64_t>(i) &&
                             rank.node_index >= node_index &&
                             static_cast<std::size_t>(rank.node_index) < attempt.nodes.size();
    if (!is_in_order) found.push_back("I12: ranks of " + job.id.value + " are out of order");
    node_index = rank.node_index;
  }
}

bool passed_gate(const AttemptNode& node) {
  return node.checked && node.checked->failures.empty();
}

int retries_within(const std::vector<std::pair<Time, bool>>& retries, bool reschedule,
                   Seconds interval) {
  const Time begin = retries.back().first - interval;
  return static_cast<int>(std::count_if(retries.begin(), retries.end(), [&](const auto& retry) {
    return retry.second == reschedule && retry.first > begin;
  }));
}

}  // namespace

std::vector<std::string> violations(const State& state) {
  std::vector<std::string> found;
  std::map<NodeId, JobId> holders;
  for (const auto& [id, job] : state.jobs) {
    if (const Attempt* attempt = active_attempt(job)) {
      check_ownership(state, job, *attempt, holders, found);
      check_members(job, *attempt, found);
      check_ranks(job, *attempt, found);
    }
  }
  for (const auto& [id, node] : state.nodes) check_owner(state, node, found);
  return found;
}

void RecordAudit::see(const State& before, const Record& record) {
  const JobId* job = job_of(record);
  if (job && std::holds_alternative<Decision>(record.what)) {
    const auto known = jobs_.find(*job);
    if (known == jobs_.end() || known->second.ended) {
      fail(*job, std::string("I9: ") + kind_of(record) + " for a job that is not there");
    }
  }
  std::visit(
      [&](const auto& side) {
        std::visit([&](const auto& one) { check(before, record.at, one); }, side);
      },
      record.what);
}

void RecordAudit::check(const State&, Time, const JobSubmitted& record) {
  History& history = jobs_[record.job];
  if (history.ended) history = History{};
  history.ended = false;
}

void RecordAudit::check(const State&, Time, const ResumeRequested& record) {
  History& history = jobs_[record.job];
  if (!history.ended) return;
  history.ended = false;
  history.resumed_step.reset();
  history.retries.clear();
  if (record.newest_checkpoint) history.sealed_steps.insert(record.newest_checkpoint->step);
}

void RecordAudit::see_sealed(const JobId& job, const std::optional<CheckpointRef>& checkpoint) {
  if (checkpoint) jobs_[job].sealed_steps.insert(checkpoint->step);
}

void RecordAudit::check(const State&, Time, const NodeChecked& record) {
  see_sealed(record.job, record.newest_checkpoint);
  see_sealed(record.job, record.newest_certified);
}

void RecordAudit::check(const State&, Time, const ProgressSeen& record) {
  see_sealed(record.job, record.checkpoint);
}

void RecordAudit::check(const State&, Time, const NodeClean& record) {
  see_sealed(record.job, record.newest_checkpoint);
  see_sealed(record.job, record.newest_certified);
  if (record.unkillable.empty()) quieten(record.job, record.attempt, record.node);
}

void RecordAudit::check(const State&, Time, const NodeFenced& record) {
  if (record.proof != FenceProof::none) quieten(record.job, record.attempt, record.node);
}

void RecordAudit::check(const State& before, Time at, const AttemptPlaced& record) {
  History& history = jobs_[record.job];
  if (record.attempt <= history.newest) {
    fail(record.job, "I2: attempt " + std::to_string(record.attempt.value) + " is used again");
  }
  history.newest = record.attempt;
  std::set<NodeId> nodes;
  for (const auto* held : {&record.nodes, &record.spares}) {
    for (const NodeId& node : *held) {
      check_free(before, at, record.job, node);
      if (!nodes.insert(node).second) fail(record.job, "I1: " + node.value + " is placed twice");
    }
  }
}

// By a spare of its own, or by a node that is free.
void RecordAudit::check(const State& before, Time at, const NodeReplaced& record) {
  const Job* job = find_job(before, record.job);
  const Attempt* attempt = job ? active_attempt(*job) : nullptr;
  if (!attempt || !find_spare(*attempt, record.new_node)) {
    return check_free(before, at, record.job, record.new_node);
  }
  check_usable(before, at, record.job, record.new_node);
}

void RecordAudit::check(const State& before, Time at, const SpareAdded& record) {
  check_free(before, at, record.job, record.node);
}

void RecordAudit::check(const State& before, Time at, const LaunchBegun& record) {
  History& history = jobs_[record.job];
  for (const Launched& earlier : history.launched) {
    for (const NodeId& node : earlier.loud) {
      fail(record.job, "I2: attempt " + std::to_string(record.attempt.value) +
                           " starts while attempt " + std::to_string(earlier.attempt.value) +
                           " may still run on " + node.value);
    }
  }
  check_resume_point(before, history, record);
  const Job* job = find_job(before, record.job);
  const Attempt* attempt = job ? active_attempt(*job) : nullptr;
  if (!attempt) return fail(record.job, "I9: a launch without an attempt");
  Launched launched{record.attempt, {}};
  for (const AttemptNode& node : attempt->nodes) {
    launched.loud.insert(node.id);
    if (!passed_gate(node)) fail(record.job, "I5: " + node.id.value + " did not pass its checks");
    check_usable(before, at, record.job, node.id);
    const LinkUp* agent = linked_agent(before, node.id);
    const auto shortage = agent ? gpu_shortage(job->spec, *agent) : std::nullopt;
    if (shortage) fail(record.job, "I5: " + node.id.value + " " + *shortage);
  }
  if (record.processes != processes_at_launch(before, job->spec, *attempt)) {
    fail(record.job, "I5: the ranks are not as many as the GPUs");
  }
  history.launched.push_back(std::move(launched));
}

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
void RecordAudit::check(const State& before, Time at, const NodeTaken& record) {
  const Attempt* attempt = elastic(before, record.job, record.attempt);
  if (!attempt) return;
  if (find_spare(*attempt, record.node))
    check_usable(before, at, record.job, record.node);
  else
    check_free(before, at, record.job, record.node);
  const LinkUp* agent = linked_agent(before, record.node);
  for (const AttemptNode& node : attempt->nodes) {
    const bool is_same = !agent || node.agent_id.empty() || node.agent_id == agent->agent_id;
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
  if (!passed_gate(*node))
    fail(record.job, "I5: " + record.node.value + " did not pass its checks");
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

void RecordAudit::check(const State& before, Time, const NodeLeaves& record) {
  const Attempt* attempt = elastic(before, record.job, record.attempt);
  const AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  if (!node || node->member) fail(record.job, "I12: " + record.node.value + " goes as a member");
}

void RecordAudit::check(const State& before, Time, const NodeReleased& record) {
  const Attempt* attempt = elastic(before, record.job, record.attempt);
  const AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  const bool may_run = node && attempt->launched && node->may_have_started();
  if (may_run && !node->is_quiet()) {
    fail(record.job, "I2: " + record.node.value + " is given away and may still run");
  }
}

void RecordAudit::check_resume_point(const State& before, History& history,
                                     const LaunchBegun& record) {
  const std::int64_t step = record.resume_from ? record.resume_from->step : 0;
  const Job* job = find_job(before, record.job);
  const bool asked = job && (job->resume_step || job->spec.muster.resume_from == ResumeFrom::path);
  if (record.resume_from && !asked && !history.sealed_steps.count(step)) {
    fail(record.job, "I3: step " + std::to_string(step) + " was never seen sealed");
  }
  const bool explained = record.went_back && !record.why.empty();
  if (history.resumed_step && step < *history.resumed_step && !explained) {
    fail(record.job, "I3: goes back from step " + std::to_string(*history.resumed_step) + " to " +
                         std::to_string(step) + " without a reason");
  }
  history.resumed_step = step;
}

void RecordAudit::check(const State& before, Time, const RetryScheduled& record) {
  const Job* job = find_job(before, record.job);
  if (!job || job->past.empty() || !record.charged) return;
  auto& retries = jobs_[record.job].retries;
  retries.emplace_back(job->past.back().ended_at, record.reschedule);
  const RestartSettings& restart = job->spec.muster.restart;
  const RescheduleSettings& reschedule = job->spec.muster.reschedule;
  if (record.reschedule && reschedule.unlimited) return;
  const int budget = record.reschedule ? reschedule.attempts : restart.attempts;
  const Seconds interval = record.reschedule ? reschedule.interval : restart.interval;
  if (retries_within(retries, record.reschedule, interval) > budget) {
    fail(record.job, std::string("I4: more than ") + std::to_string(budget) +
                         (record.reschedule ? " reschedules" : " restarts"));
  }
}

void RecordAudit::check(const State&, Time, const JobEnded& record) {
  jobs_[record.job].ended = true;
}

void RecordAudit::check_usable(const State& before, Time at, const JobId& job, const NodeId& id) {
  Moment moment(at);
  if (const auto why = refusal_of(find_node(before, id), moment)) fail(job, "I5: " + *why);
}

void RecordAudit::check_free(const State& before, Time at, const JobId& job, const NodeId& id) {
  check_usable(before, at, job, id);
  const Node* node = find_node(before, id);
  if (node && node->owner) {
    fail(job, "I1: " + id.value + " already belongs to " + node->owner->value);
  }
}

void RecordAudit::quieten(const JobId& job, AttemptId attempt, const NodeId& node) {
  for (Launched& launched : jobs_[job].launched) {
    if (launched.attempt == attempt) launched.loud.erase(node);
  }
}

void RecordAudit::fail(const JobId& job, const std::string& what) {
  violations_.push_back(job.value + ": " + what);
}

std::vector<std::string> violations(const std::vector<Record>& journal) {
  State state;
  RecordAudit audit;
  for (const Record& record : journal) {
    audit.see(state, record);
    apply(state, record);
  }
  return audit.violations();
}

}  // namespace muster
