#include "scheduler/failure/first_failure.h"

#include <algorithm>
#include <array>
#include <limits>

#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/sentences.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

// A failure on the common clock, in us; without an interval it may have been at any time.
struct Timed {
  const Failure* failure = nullptr;
  std::int64_t earliest_us = std::numeric_limits<std::int64_t>::min();
  std::int64_t latest_us = std::numeric_limits<std::int64_t>::max();

  bool is_node() const { return !failure->rank; }
  Standing standing() const { return failure->judgement.standing; }
  bool is_root() const { return standing() != Standing::consequence; }
  bool ended_before(const Timed& other) const { return latest_us < other.earliest_us; }
};
using Timeline = std::vector<Timed>;

// Intervals of several clocks (the controller's host has rebooted) say nothing about each other.
bool is_one_clock(const std::vector<Failure>& failures) {
  const std::string* clock = nullptr;
  for (const Failure& failure : failures) {
    if (!failure.when) continue;
    if (clock && *clock != failure.when->clock) return false;
    clock = &failure.when->clock;
  }
  return true;
}

Timeline timeline_of(const std::vector<Failure>& failures) {
  const bool comparable = is_one_clock(failures);
  Timeline all;
  for (const Failure& failure : failures) {
    Timed timed{&failure};
    if (failure.when && comparable) {
      timed.earliest_us = failure.when->earliest_us;
      timed.latest_us = failure.when->latest_us;
    }
    all.push_back(timed);
  }
  std::ranges::stable_sort(
      all, [](const Timed& a, const Timed& b) { return a.earliest_us < b.earliest_us; });
  return all;
}

// Those that no other one of them precedes for sure.
Timeline earliest_of(const Timeline& all) {
  std::int64_t first_over = std::numeric_limits<std::int64_t>::max();
  for (const Timed& one : all) first_over = std::min(first_over, one.latest_us);
  Timeline earliest;
  for (const Timed& one : all) {
    if (one.earliest_us <= first_over) earliest.push_back(one);
  }
  return earliest;
}

// A rank cannot take another node down, but a node takes ranks elsewhere with it.
void leave_out_fallout_of_nodes(Timeline& candidates) {
  const auto is_node = [](const Timed& one) { return one.is_node(); };
  if (std::ranges::none_of(candidates, is_node)) return;
  std::erase_if(candidates, [](const Timed& one) { return one.standing() == Standing::silent; });
}

// What else could have come before the only candidate: one that said what went wrong and took its
// time to exit, when the candidate does not say why it ended; an error of a peer that ended sooner,
// when the candidate's own end was a sudden one.
std::optional<Timed> rival_of(const Timed& one, const Timeline& all) {
  for (const Timed& other : all) {
    if (other.failure == one.failure) continue;
    const bool may_exit_late = other.failure->judgement.exits_late &&
                               one.standing() == Standing::silent &&
                               other.earliest_us - one.latest_us < exit_lag_limit_us;
    const bool came_before =
        !other.is_root() && other.ended_before(one) && !one.failure->judgement.exits_late;
    if (may_exit_late || came_before) return other;
  }
  return std::nullopt;
}

// The first of the others ended between the earliest end and the earliest latest end of them.
std::optional<Margin> margin_of(const Timed& first, const Timeline& all) {
  std::int64_t from = std::numeric_limits<std::int64_t>::max();
  std::int64_t to = from;
  for (const Timed& other : all) {
    if (other.failure == first.failure) continue;
    from = std::min(from, other.earliest_us);
    to = std::min(to, other.latest_us);
  }
  const bool is_known = from > first.latest_us && to < std::numeric_limits<std::int64_t>::max();
  if (!is_known) return std::nullopt;
  const std::int64_t least = from - first.latest_us;
  const std::int64_t most = to - first.earliest_us;
  return Margin{(least + most) / 2, (most - least + 1) / 2};
}

Timeline candidates_of(const Timeline& all) {
  Timeline roots;
  for (const Timed& one : all) {
    if (one.is_root()) roots.push_back(one);
  }
  Timeline candidates = earliest_of(roots.empty() ? all : roots);
  leave_out_fallout_of_nodes(candidates);
  if (candidates.size() != 1) return candidates;
  if (const auto rival = rival_of(candidates.front(), all)) candidates.push_back(*rival);
  return candidates;
}

// ---- what failed in an attempt ----------------------------------------------------------------

// A node that never answered again, or came back empty, while its ranks had not ended.
bool is_lost(const Attempt& attempt, std::size_t index) {
  const AttemptNode& node = attempt.nodes[index];
  const bool gone = node.fenced && *node.fenced != FenceProof::never_started &&
                    !is_unproven(node) && !unkillable_since(node);
  const auto here = ranks_on(attempt, index);
  return gone && std::ranges::any_of(here, [](const Rank& rank) {
           return !std::holds_alternative<RankDone>(rank.state);
         });
}

std::string loss_text(const AttemptNode& node) {
  if (has_rebooted(node)) return "rebooted";
  return has_changed_agent(node) ? "lost its ranks: its agent restarted" : "was lost";
}

Failure loss_of(const AttemptNode& node) {
  Failure failure;
  failure.node = node.id;
  if (node.agent && node.agent->lost) {
    failure.when = node.agent->lost->silent_since;
    failure.at_ms = to_ms(node.agent->lost->at);
  }
  failure.how = loss_text(node);
  failure.judgement.standing = Standing::proven;
  return failure;
}

std::optional<Failure> failure_of(const Attempt& attempt, const Rank& rank, bool is_mpi) {
  const auto* done = std::get_if<RankDone>(&rank.state);
  if (!done || done->exit.status.ok()) return std::nullopt;
  const RankExited& exit = done->exit;
  Failure failure{exit.rank, exit.node, exit.when, exit.at_ms, exit_text(exit.status), {}};
  if (!exit.asked_to_stop) {
    failure.judgement = judge(exit, is_mpi, attempt.ranks.size() > 1);
    return failure;
  }
  auto judgement = judge_stopped(exit);
  if (!judgement) return std::nullopt;
  failure.how = "was ending when it was stopped";
  failure.judgement = std::move(*judgement);
  return failure;
}

// Ended with 0, unasked: nothing is wrong with that unless its peers still needed it.
std::optional<Failure> early_end_of(const Rank& rank) {
  const auto* done = std::get_if<RankDone>(&rank.state);
  if (!done || !done->exit.status.ok() || done->exit.asked_to_stop) return std::nullopt;
  const RankExited& exit = done->exit;
  Failure failure{
      exit.rank, exit.node, exit.when, exit.at_ms, "ended with 0 while its peers went on", {}};
  failure.judgement.standing = Standing::proven;
  failure.judgement.evidence = {"all that failed lost a peer", "exit code 0"};
  return failure;
}

// In the words of a collective: other connections break for other reasons.
bool has_lost_a_rank(const Rank& rank) {
  constexpr std::array collectives{"gloo",       "nccl-remote", "nccl-system",  "nccl-timeout",
                                   "store-lost", "watchdog",    "mpi-transport"};
  const auto* done = std::get_if<RankDone>(&rank.state);
  const auto* rule = done && done->exit.rules.rule ? &*done->exit.rules.rule : nullptr;
  return rule && !done->exit.status.ok() && std::ranges::count(collectives, rule->id) > 0;
}

// All that failed did so because a peer had gone. At the end of a run most ranks have ended with 0:
// they are not the cause of the last one's words.
void add_early_ends(const Attempt& attempt, std::vector<Failure>& failures) {
  const bool has_cause = std::ranges::any_of(
      failures, [](const Failure& one) { return one.judgement.standing > Standing::unclear; });
  if (has_cause || std::ranges::none_of(attempt.ranks, has_lost_a_rank)) return;
  std::vector<Failure> early;
  for (const Rank& rank : attempt.ranks) {
    auto end = takes_part(attempt, rank) ? early_end_of(rank) : std::nullopt;
    if (end) early.push_back(std::move(*end));
  }
  if (early.size() > failures.size()) return;
  failures.insert(failures.end(), early.begin(), early.end());
}

// ---- words ------------------------------------------------------------------------------------

std::string milliseconds_text(std::int64_t us) {
  const double ms = static_cast<double>(us) / 1000;
  return printed(ms < 10 ? "%.1f ms" : "%.0f ms", ms);
}

std::string named_sentence(const Attribution& attribution) {
  const Failure& first = attribution.first.front();
  std::string text = subject_text(first) + " " + first.how;
  if (attribution.margin) {
    text += " " + milliseconds_text(attribution.margin->middle_us) + " (±" +
            milliseconds_text(attribution.margin->uncertainty_us) + ") before any other";
  }
  return text;
}

std::string candidates_sentence(const Attribution& attribution) {
  const std::vector<Failure>& all = attribution.first;
  std::string names;
  std::vector<std::string> ends;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_last = i + 1 == all.size();
    if (i < static_cast<std::size_t>(nodes_named) || is_last) {
      names += (i == 0 ? "" : is_last ? " and " : ", ") + subject_text(all[i]);
    }
    const std::string who =
        all[i].rank ? "rank " + std::to_string(all[i].rank->value) : all[i].node.value;
    ends.push_back(who + " " + all[i].how);
  }
  const bool only_one = all.size() == 1;
  return (only_one ? "first failure unknown; last known: " : "first failure unknown, one of: ") +
         names + ": " + list_text(ends);
}

}  // namespace

Attribution attribute(const std::vector<Failure>& failures) {
  Attribution attribution;
  const Timeline all = timeline_of(failures);
  const Timeline candidates = candidates_of(all);
  for (const Timed& one : candidates) attribution.first.push_back(*one.failure);
  attribution.followed = failures.size() - candidates.size();
  attribution.is_named =
      candidates.size() == 1 && candidates.front().standing() > Standing::unclear;
  if (attribution.is_named) attribution.margin = margin_of(candidates.front(), all);
  return attribution;
}

std::vector<Failure> failures_of(const Attempt& attempt, bool is_mpi,
                                 std::optional<std::size_t> node_index) {
  std::vector<Failure> failures;
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    const bool counts = node_index ? i == *node_index : takes_part(attempt, attempt.nodes[i]);
    if (counts && is_lost(attempt, i)) failures.push_back(loss_of(attempt.nodes[i]));
  }
  const auto ranks = node_index ? ranks_on(attempt, *node_index) : std::span(attempt.ranks);
  for (const Rank& rank : ranks) {
    if (!node_index && !takes_part(attempt, rank)) continue;
    if (auto failure = failure_of(attempt, rank, is_mpi)) failures.push_back(std::move(*failure));
  }
  if (!node_index) add_early_ends(attempt, failures);
  return failures;
}

std::string subject_text(const Failure& failure) {
  if (!failure.rank) return failure.node.value;
  return "rank " + std::to_string(failure.rank->value) + " on " + failure.node.value;
}

std::string attribution_sentence(const Attribution& attribution) {
  if (attribution.first.empty()) return "";
  const std::string text =
      attribution.is_named ? named_sentence(attribution) : candidates_sentence(attribution);
  if (attribution.followed == 0) return text;
  return text + "; " + std::to_string(attribution.followed) + " failed afterwards";
}

FirstFailure journal_form(const Attribution& attribution) {
  FirstFailure form;
  form.followed = static_cast<int>(attribution.followed);
  if (!attribution.is_named) {
    for (const Failure& one : attribution.first) {
      if (form.candidates.size() == candidates_kept) break;
      form.candidates.push_back({one.rank, one.node, one.how});
    }
    return form;
  }
  const Failure& first = attribution.first.front();
  form.rank = first.rank;
  form.node = first.node;
  form.at_ms = first.at_ms;
  form.evidence = first.judgement.evidence;
  if (attribution.margin) {
    form.margin_us = attribution.margin->middle_us;
    form.uncertainty_us = attribution.margin->uncertainty_us;
  }
  return form;
}

}  // namespace muster
