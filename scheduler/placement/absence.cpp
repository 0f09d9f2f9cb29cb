#include "scheduler/placement/absence.h"

#include <algorithm>

#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

// A link that broke is tried again at once: it says nothing of the node.
const LinkFailure* certain_failure(const State& state, const AttemptNode& node) {
  const Unlinked* link = unlinked(state, node.id);
  const bool is_news = link && link->sought_since && link->failed_at >= node.joined_at;
  return is_news && link->failure.kind != LinkFailureKind::lost ? &link->failure : nullptr;
}

// Pretend nodes of one machine: where one is slow, so are the others.
bool is_one_machine(const ComputeTarget& target) {
  return target.nodes.front().transport == TransportKind::local;
}

std::set<NodeId> others(const State& state, const Job& job, std::size_t absent) {
  std::set<NodeId> others;
  if (absent == 0 || is_one_machine(job.target)) return others;
  for (const NodeAddress& address : job.target.nodes) {
    if (others.size() >= asked_besides_least + 2 * absent) break;
    const Node* node = find_node(state, address.id);
    const Unlinked* link = unlinked(state, address.id);
    const bool is_given_up = link && is_permanent(link->failure.kind);
    const bool is_free = node && !node->owner && !node->drained && !node->fault_drain;
    if (is_free && !is_given_up && !is_placed_out(job, address.id)) others.insert(address.id);
  }
  return others;
}

std::string absence_text(const State& state, const NodeId& id) {
  const Unlinked* link = unlinked(state, id);
  const bool has_failed = link && link->sought_since;
  return has_failed ? link_text(id, link->failure)
                    : id.value + " has not answered for " + duration_text(first_word) +
                          " and may only be slow";
}

// Where a node was asked before, its time has passed already.
Time asked_at(const Job& job, const AttemptNode& node) {
  const bool was_asked =
      job.asked && job.past.empty() && job.abandoned == 0 && job.asked->nodes.contains(node.id);
  return was_asked ? job.asked->at : node.joined_at;
}

bool has_answered(const State& state, const Job& job, const NodeId& id) {
  if (linked_agent(state, id)) return true;
  const Unlinked* link = unlinked(state, id);
  return job.asked && link && link->sought_since && link->failed_at >= job.asked->at;
}

bool has_choice(const Job& job) {
  return job.past.empty() && !is_one_machine(job.target) &&
         job.target.nodes.size() > node_range(job.spec).least;
}

std::string what_goes_on(const State& state, const Job& job, std::size_t absent) {
  const std::string waits = "; waits " + duration_text(link_limit) + " for an answer";
  if (is_one_machine(job.target)) return waits;
  const std::set<NodeId> asked = others(state, job, absent);
  const std::string meanwhile = asked.empty()
                                    ? "no other node of " + job.target.name + " is free"
                                    : names_text({asked.begin(), asked.end()}) +
                                          (asked.size() == 1 ? " is" : " are") + " asked as well";
  return waits + ", " + meanwhile;
}

}  // namespace

bool awaits_hosts(Turn& turn, const Job& job, const std::vector<Candidate>& candidates,
                  const std::vector<NodeId>& picks) {
  const bool are_there = std::ranges::all_of(
      picks, [&](const NodeId& id) { return has_answered(turn.state, job, id); });
  if (are_there || !has_choice(job)) return false;
  if (job.asked) return !turn.moment.reached(job.asked->at + first_word);
  HostsAsked asked{job.id, picks};
  for (const NodeId& id : choose_spares(candidates, asked_besides_least, picks, nullptr)) {
    asked.nodes.push_back(id);
  }
  turn.decide(std::move(asked));
  return true;
}

bool asks_hosts(const Job& job) {
  return job.asked && job.past.empty() && !active_attempt(job);
}

bool is_silent(const State& state, const Job& job, const NodeId& node, Time now) {
  return job.asked && now >= job.asked->at + first_word && !has_answered(state, job, node);
}

std::string absent_text(const State& state, const Job& job, const std::vector<NodeId>& nodes,
                        Time now) {
  std::vector<std::string> parts;
  if (!job.asked || job.abandoned > 0) return {};
  for (const NodeId& id : job.asked->nodes) {
    if (linked_agent(state, id) || has_node(nodes, id)) continue;
    const bool has_failed = has_answered(state, job, id);
    if (has_failed || is_silent(state, job, id, now)) parts.push_back(absence_text(state, id));
  }
  return list_text(parts);
}

std::vector<Unfit> certain_absences(const State& state, const Attempt& attempt) {
  std::vector<Unfit> absent;
  for (const AttemptNode& node : attempt.nodes) {
    if (linked_agent(state, node.id)) continue;
    const LinkFailure* failure = certain_failure(state, node);
    if (failure) absent.push_back({node.id, Unfitness::unreachable, link_text(node.id, *failure)});
  }
  return absent;
}

void report_absences(Turn& turn, const Job& job, const Attempt& attempt) {
  AnswersAwaited awaited{job.id, attempt.id, {}, ""};
  std::vector<std::string> parts;
  for (const AttemptNode& node : attempt.nodes) {
    if (linked_agent(turn.state, node.id) || job.awaited.contains(node.id)) continue;
    if (!turn.moment.reached(asked_at(job, node) + first_word)) continue;
    awaited.nodes.push_back(node.id);
    parts.push_back(absence_text(turn.state, node.id));
  }
  if (parts.empty()) return;
  awaited.sentence = list_text(parts) + what_goes_on(turn.state, job, parts.size());
  turn.decide(std::move(awaited));
}

std::set<NodeId> asked_besides(const State& state, const Job& job) {
  const Attempt* attempt = active_attempt(job);
  if (!attempt || !phase_of<Gathering>(*attempt)) return {};
  const auto is_absent = [&](const AttemptNode& node) {
    const bool is_reported = certain_failure(state, node) || job.awaited.contains(node.id);
    return is_reported && !linked_agent(state, node.id);
  };
  const auto absent = std::ranges::count_if(attempt->nodes, is_absent);
  return others(state, job, static_cast<std::size_t>(absent));
}

}  // namespace muster
