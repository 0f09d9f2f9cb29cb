// Gathering: every node of the gang is connected and passes its start gate, is passed over for
// another, or the gang is given back.
#include "scheduler/placement/allocate.h"

#include <algorithm>

#include "scheduler/model/exit_code.h"
#include "scheduler/node/status.h"
#include "scheduler/state/gate_benchmark.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"
#include "scheduler/state/sentences.h"
#include "scheduler/state/turn.h"

namespace muster {

namespace {

std::string failures_text(const NodeChecked& checked) {
  std::vector<std::string> parts;
  for (const CheckFailure& failure : checked.failures) {
    parts.push_back(failure.check + ": " + failure.message);
  }
  return checked.node.value + " failed its start checks: " + list_text(parts);
}

std::optional<Unfit> unlinked_too_long(Turn& turn, const AttemptNode& node) {
  const Unlinked* link = unlinked(turn.state, node.id);
  const Time since = link ? std::max(link->since, node.joined_at) : node.joined_at;
  if (!turn.moment.reached(since + link_limit)) return std::nullopt;
  const std::string silence = node.id.value + " gave no answer for " + duration_text(link_limit);
  return Unfit{node.id, Unfitness::unreachable, link ? link_text(node.id, link->failure) : silence};
}

Unfit failed_checks(const NodeChecked& checked) {
  const bool lasting = std::ranges::any_of(
      checked.failures, [](const CheckFailure& failure) { return failure.lasting; });
  return {checked.node, lasting ? Unfitness::lasting : Unfitness::unhealthy,
          failures_text(checked)};
}

// Spares first, those that have passed their gate before others; then nodes that are free.
std::vector<NodeId> replacements(Turn& turn, const Job& job, const Attempt& attempt,
                                 std::size_t count) {
  std::vector<NodeId> chosen;
  for (const bool passed : {true, false}) {
    for (const AttemptNode& spare : attempt.spares) {
      if (has_passed_gate(turn.state, spare) != passed || unfit(turn, job, spare)) continue;
      if (chosen.size() < count) chosen.push_back(spare.id);
    }
  }
  if (chosen.size() == count) return chosen;
  const auto free =
      choose_nodes(new_candidates(turn, job, attempt), count - chosen.size(), nullptr);
  chosen.insert(chosen.end(), free.begin(), free.end());
  return chosen;
}

std::string abandon_text(const Job& job, const Attempt& attempt, const std::vector<Unfit>& unfits) {
  std::vector<std::string> parts;
  for (const NodeReplaced& passed : attempt.rejected_nodes) parts.push_back(passed.reason);
  for (const Unfit& unfit : unfits) parts.push_back(unfit.reason);
  return "found no replacement in " + job.target.name + " for " +
         count_text(unfits.size(), "node") + ": " + list_text(parts);
}

Milliseconds retry_delay(const Job& job) {
  const int doublings = std::min(job.abandoned, 8);
  return std::min(retry_placement_most, retry_placement_first * (1 << doublings));
}

// So many nodes of the target fail a check that waiting does not mend, or can never be used, that
// the others are too few, were they all there.
bool is_hopeless(Turn& turn, const Job& job, const Attempt& attempt,
                 const std::vector<Unfit>& unfits) {
  const auto fails_for_good = [&](const NodeId& id) {
    return std::ranges::any_of(unfits,
                               [&](const Unfit& failed) {
                                 return failed.node == id && failed.unfitness == Unfitness::lasting;
                               }) ||
           std::ranges::any_of(attempt.rejected_nodes, [&](const NodeReplaced& passed) {
             return passed.old_node == id && passed.unfitness == Unfitness::lasting;
           });
  };
  const auto all = candidates(turn, job);
  const bool any_fails = std::ranges::any_of(
      all, [&](const Candidate& candidate) { return fails_for_good(candidate.id); });
  const auto possible = std::ranges::count_if(all, [&](const Candidate& candidate) {
    return !std::holds_alternative<Unusable>(candidate.standing) && !fails_for_good(candidate.id);
  });
  return any_fails && static_cast<std::size_t>(possible) < node_range(job.spec).least;
}

std::string besides_text(Milliseconds measured) {
  if (measured < Seconds{1}) return {};
  return ", besides " + duration_text(measured) + " in which nodes were measured";
}

std::string tries_text(int tries) {
  return tries == 1 ? "1 try" : std::to_string(tries) + " tries";
}

void abandon(Turn& turn, const Job& job, const Attempt& attempt, const std::vector<Unfit>& unfits) {
  const std::string reason = abandon_text(job, attempt, unfits);
  const Time now = turn.moment.now();
  turn.decide(PlacementAbandoned{job.id, attempt.id, reason, now + retry_delay(job)});
  if (is_hopeless(turn, job, attempt, unfits)) {
    turn.decide(
        JobEnded{job.id, JobEndState::failed, static_cast<int>(ExitCode::no_nodes), reason});
    return;
  }
  const Milliseconds measured =
      job.measured_meanwhile + measured_for(turn.state, job, attempt, now);
  const Time since = job.waiting_since.value_or(attempt.placed_at) - job.waited_before + measured;
  if (!turn.moment.reached(since + job.spec.muster.nodes_wait)) return;
  const bool all_links = std::ranges::all_of(
      unfits, [](const Unfit& unfit) { return unfit.unfitness == Unfitness::unreachable; });
  const ExitCode code = all_links ? ExitCode::launch : ExitCode::no_nodes;
  turn.decide(JobEnded{job.id, JobEndState::failed, static_cast<int>(code),
                       "timed out after " + duration_text(job.spec.muster.nodes_wait) +
                           " (muster.nodes.wait" + besides_text(measured) + ") and " +
                           tries_text(job.abandoned + 1) + ": " + reason});
}

// Nothing runs there: it is nobody's at once.
void release_unfit(Turn& turn, const Job& job, const Attempt& attempt, const Unfit& unfit) {
  turn.decide(NodeLeaving{job.id, attempt.id, unfit.node, reason_of(unfit.unfitness), unfit.reason,
                          Milliseconds{0}});
  turn.decide(NodeReleased{job.id, attempt.id, unfit.node, ""});
}

void replace(Turn& turn, const Job& job, const Attempt& attempt, const Unfit& unfit,
             const NodeId& other) {
  turn.given.insert(other);
  turn.decide(NodeReplaced{job.id, attempt.id, unfit.node, other, unfit.reason, unfit.unfitness});
}

// A release that was not written down.
bool release_gone(Turn& turn, const Job& job, const Attempt& attempt) {
  bool any = false;
  for (const AttemptNode& node : attempt.nodes) {
    if (!node.departure) continue;
    turn.decide(NodeReleased{job.id, attempt.id, node.id, ""});
    any = true;
  }
  return any;
}

// Those of the gang that cannot be reached give way to nodes that are known to be there.
bool replace_absent(Turn& turn, const Job& job, const Attempt& attempt) {
  const std::vector<Unfit> absent = certain_absences(turn.state, attempt);
  if (absent.empty()) return false;
  std::vector<NodeId> others;
  for (const AttemptNode& spare : attempt.spares) {
    if (linked_agent(turn.state, spare.id) && !unfit(turn, job, spare)) others.push_back(spare.id);
  }
  std::vector<Candidate> there = new_candidates(turn, job, attempt);
  std::erase_if(there, [&](const Candidate& one) { return !linked_agent(turn.state, one.id); });
  const auto free = choose_nodes(there, absent.size(), nullptr);
  others.insert(others.end(), free.begin(), free.end());
  const std::size_t count = std::min(absent.size(), others.size());
  for (std::size_t i = 0; i < count; ++i) replace(turn, job, attempt, absent[i], others[i]);
  return count > 0;
}

std::optional<std::string> why_unfit(Turn& turn, const Job& job, const AttemptNode& spare) {
  if (auto found = unfit(turn, job, spare)) return std::move(found->reason);
  if (!spare.staged || spare.staged->error.empty()) return std::nullopt;
  return spare.id.value + " could not be prepared: " + spare.staged->error;
}

// A job that waits for nodes of the same target needs them more.
bool somebody_waits(const State& state, const Job& job) {
  return std::ranges::any_of(state.jobs, [&](const auto& item) {
    return !active_attempt(item.second) && item.second.target.name == job.target.name;
  });
}

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

std::optional<Unfit> unfit(Turn& turn, const Job& job, const AttemptNode& node) {
  if (auto refusal = refusal_of(find_node(turn.state, node.id), turn.moment)) {
    return Unfit{node.id, Unfitness::drained, std::move(*refusal)};
  }
  if (const LinkFailure* failure = permanent_failure(turn.state, job, node.id)) {
    return Unfit{node.id, Unfitness::unreachable, link_text(node.id, *failure)};
  }
  if (node.checked && !node.checked->failures.empty()) return failed_checks(*node.checked);
  const LinkUp* agent = linked_agent(turn.state, node.id);
  if (!agent) return unlinked_too_long(turn, node);
  if (const auto shortage = gpu_shortage(job.spec, *agent)) {
    return Unfit{node.id, Unfitness::lasting, node.id.value + " " + *shortage};
  }
  if (!node.checked && turn.moment.reached(node.joined_at + check_limit)) {
    return Unfit{
        node.id, Unfitness::unhealthy,
        node.id.value + " did not finish its start checks within " + duration_text(check_limit)};
  }
  return std::nullopt;
}

StopReason reason_of(Unfitness unfitness) {
  if (unfitness == Unfitness::drained) return StopReason::drained;
  return unfitness == Unfitness::unreachable ? StopReason::node_lost : StopReason::start_failed;
}

bool has_passed_gate(const State& state, const AttemptNode& node) {
  return node.checked && node.checked->failures.empty() && linked_agent(state, node.id) != nullptr;
}

void gather(Turn& turn, const Job& job, const Attempt& attempt) {
  if (release_gone(turn, job, attempt)) return;
  std::vector<Unfit> unfits;
  bool all_checked = true;
  for (const AttemptNode& node : attempt.nodes) {
    if (auto found = unfit(turn, job, node)) unfits.push_back(std::move(*found));
    all_checked = all_checked && node.checked && linked_agent(turn.state, node.id);
  }
  if (unfits.empty()) {
    if (all_checked) return turn.decide(StagingBegun{job.id, attempt.id});
    if (!replace_absent(turn, job, attempt)) report_absences(turn, job, attempt);
    return;
  }
  const auto others = replacements(turn, job, attempt, unfits.size());
  const std::size_t lost = unfits.size() - others.size();
  const bool is_enough =
      is_elastic(job.spec) && attempt.nodes.size() >= node_range(job.spec).least + lost;
  if (lost > 0 && !is_enough) return abandon(turn, job, attempt, unfits);
  for (std::size_t i = 0; i < unfits.size(); ++i) {
    if (i < others.size())
      replace(turn, job, attempt, unfits[i], others[i]);
    else
      release_unfit(turn, job, attempt, unfits[i]);
  }
}

bool has_ready_spare(Turn& turn, const Job& job, const Attempt& attempt) {
  return !ready_spares(turn, job, attempt).empty();
}

std::vector<NodeId> ready_spares(Turn& turn, const Job& job, const Attempt& attempt) {
  std::vector<NodeId> ready;
  for (const AttemptNode& spare : attempt.spares) {
    if (!has_passed_gate(turn.state, spare) || why_unfit(turn, job, spare)) continue;
    ready.push_back(spare.id);
  }
  return ready;
}

std::vector<Candidate> new_candidates(Turn& turn, const Job& job, const Attempt& attempt) {
  std::vector<Candidate> all = candidates(turn, job);
  std::erase_if(all, [&](const Candidate& candidate) {
    return was_rejected(attempt, candidate.id) || has_node(attempt.spares_dropped, candidate.id);
  });
  return all;
}

void add_spares(Turn& turn, const Job& job, const Attempt& attempt, std::size_t wanted) {
  std::vector<Candidate> free = new_candidates(turn, job, attempt);
  // One that does not answer would be given back, and not be taken when it does.
  const bool grows = is_elastic(job.spec) && phase_of<Running>(attempt);
  std::erase_if(free, [&](const auto& one) { return grows && unlinked(turn.state, one.id); });
  for (const NodeId& id : choose_spares(free, wanted, {}, nullptr)) {
    turn.given.insert(id);
    turn.decide(SpareAdded{job.id, attempt.id, id});
  }
}

// Others are looked for while the gang gathers and when one is given back: not at every turn.
void handle_spares(Turn& turn, const Job& job, const Attempt& attempt) {
  std::size_t kept = 0;
  for (const AttemptNode& spare : attempt.spares) {
    if (auto why = why_unfit(turn, job, spare)) {
      turn.decide(SpareDropped{job.id, attempt.id, spare.id, std::move(*why)});
    } else {
      ++kept;
    }
  }
  const bool looks = kept < attempt.spares.size() || phase_of<Gathering>(attempt);
  if (!looks || kept >= spares_wanted(job) || somebody_waits(turn.state, job)) return;
  add_spares(turn, job, attempt, spares_wanted(job) - kept);
}

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
