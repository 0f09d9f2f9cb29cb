#include "scheduler/failure/stall_watch.h"

#include <algorithm>

namespace muster {

namespace {

// The shell asks twice a second. A longer gap is its own: it was stopped, or the machine slept.
constexpr Milliseconds blind_limit{5'000};

// Connections, caches, compilation: the first steps say nothing about the others.
constexpr int untypical_steps = 5;

// What is told of one attempt, so that an odd run does not fill the journal; a hang always is.
constexpr int tellings_limit = 100;

// Whatever a watch before this one found shows itself again by then.
constexpr Milliseconds heir_patience{60'000};

// Stacks of more ranks say no more.
constexpr std::size_t suspects_limit = 4;

}  // namespace

StallWatch::StallWatch(Subject subject, Milliseconds now)
    : subject_(std::move(subject)), ranks_(subject_.nodes.size()), last_call_(now) {
  began_at_ = stepped_at_ = printed_at_ = life_at_ = now;
  for (Watched& rank : ranks_) rank.since = rank.stepped_at = now;
  for (const RankId other : subject_.others)
    ranks_.at(static_cast<std::size_t>(other.value)).ended = true;
  if (subject_.told) inherit(*subject_.told);
}

// A controller that was restarted knows what it said and not yet why.
void StallWatch::inherit(const StallSeen& told) {
  told_ = Finding{told.stall, told.rank, told.sentence, told.silent_for, told.limit};
  is_heir_ = true;
}

// ---- what is told -----------------------------------------------------------------------------

Milliseconds StallWatch::watched_time(Milliseconds now) {
  const Milliseconds gap = now - last_call_;
  if (is_unheard_ || gap > blind_limit) lost_ += gap;
  last_call_ = now;
  return now - lost_;
}

StallWatch::Watched* StallWatch::find(RankId rank) {
  const auto count = static_cast<std::int64_t>(ranks_.size());
  if (rank.value < 0 || rank.value >= count || subject_.others.contains(rank)) return nullptr;
  return &ranks_[static_cast<std::size_t>(rank.value)];
}

// Steps that begin anew (a second epoch) are steps all the same.
void StallWatch::stepped(RankId id, std::int64_t step, Milliseconds now) {
  const Milliseconds t = watched_time(now);
  Watched* rank = find(id);
  if (rank == nullptr || rank->step == step) return;
  const bool begins_anew = rank->step && step < *rank->step;
  rank->step = step;
  rank->stepped_at = t;
  if (!step_ || begins_anew) first_step_ = step;
  if (step_ && step <= *step_ && !begins_anew) return;
  step_ = step;
  if (advances_++ > untypical_steps) pace_.add(t - stepped_at_);
  stepped_at_ = t;
}

void StallWatch::printed(Milliseconds now) {
  printed_at_ = life_at_ = watched_time(now);
}

void StallWatch::checkpointed(Milliseconds now) {
  life_at_ = watched_time(now);
}

void StallWatch::does(const RankDoing& doing, Milliseconds now) {
  const Milliseconds t = watched_time(now);
  Watched* rank = find(doing.rank);
  if (rank == nullptr) return;
  if (rank->doing == Doing::moving) life_at_ = t;
  rank->doing = doing.doing;
  rank->since = std::max(began_at_, t - Milliseconds{doing.age_ms});
  rank->process = doing.process;
}

void StallWatch::network(const NodeId& node, bool moves, Milliseconds now) {
  watched_time(now);
  if (moves)
    busy_networks_.insert(node);
  else
    busy_networks_.erase(node);
}

void StallWatch::ended(RankId id, Milliseconds now) {
  watched_time(now);
  if (Watched* rank = find(id)) rank->ended = has_ended_ranks_ = true;
}

void StallWatch::unheard(bool is_any_agent, Milliseconds now) {
  watched_time(now);
  is_unheard_ = is_any_agent;
}

void StallWatch::seen(RankId rank, const std::vector<std::string>& lines) {
  evidence_[rank] = lines;
  evidence_is_news_ = true;
}

// ---- telling ----------------------------------------------------------------------------------

std::optional<StallSeen> StallWatch::look(Milliseconds now) {
  const Milliseconds t = watched_time(now);
  if (is_over_ || subject_.settings.off || is_unheard_) return std::nullopt;
  const auto found = finding(t);
  if (!found && is_heir_ && t - began_at_ < heir_patience) return std::nullopt;
  is_heir_ = false;
  return tell(found);
}

// A change of kind or of the name; the same once more when a closer look has shown something.
std::optional<StallSeen> StallWatch::tell(const std::optional<Finding>& found) {
  if (!found && !told_) return std::nullopt;
  const bool is_same =
      found && told_ && found->kind == told_->kind && (found->rank == told_->rank || !found->rank);
  const bool has_evidence = is_same && found->kind == StallKind::suspect && evidence_is_news_;
  if (is_same && !has_evidence) return std::nullopt;
  const bool is_hung = found && found->kind == StallKind::hung;
  if (found && !is_hung && tellings_ >= tellings_limit) return std::nullopt;
  ++tellings_;
  is_over_ = is_hung;
  StallSeen record;
  if (found) {
    record = record_of(*found);
    evidence_is_news_ = false;
  } else {
    Finding over = *told_;
    over.kind = StallKind::over;
    over.sentence =
        told_->kind == StallKind::slow ? "step time is normal" : "the run continues" + where();
    evidence_.clear();
    record = record_of(over);
  }
  told_ = found;
  return record;
}

StallSeen StallWatch::record_of(const Finding& finding) const {
  StallSeen record;
  record.job = subject_.job;
  record.attempt = subject_.attempt;
  record.stall = finding.kind;
  record.rank = finding.rank;
  if (finding.rank) record.blamed = subject_.nodes[static_cast<std::size_t>(finding.rank->value)];
  record.step = step_;
  record.silent_for = finding.silent_for;
  record.limit = finding.limit;
  record.sentence = finding.sentence;
  for (const auto& [rank, lines] : evidence_) {
    if (finding.kind == StallKind::slow || finding.kind == StallKind::over) break;
    for (const std::string& line : lines) record.evidence.push_back(who(rank) + ": " + line);
  }
  return record;
}

std::vector<RankId> StallWatch::suspects() const {
  std::vector<RankId> found;
  if (!told_ || told_->kind != StallKind::suspect) return found;
  if (told_->rank) found.push_back(*told_->rank);
  std::vector<std::size_t> order(ranks_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(
      order, [this](std::size_t a, std::size_t b) { return ranks_[a].step < ranks_[b].step; });
  for (const std::size_t i : order) {
    const RankId id{static_cast<std::int64_t>(i)};
    if (found.size() == suspects_limit) break;
    if (!ranks_[i].ended && (found.empty() || found.front() != id)) found.push_back(id);
  }
  return found;
}

}  // namespace muster
