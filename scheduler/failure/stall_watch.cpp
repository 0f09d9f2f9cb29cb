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

constexpr std::size_t remembered = 200;
constexpr std::size_t pauses_remembered = 8;
// With fewer the 95th percentile is the largest of a handful.
constexpr std::size_t enough = 8;
// One long step is a pause; five in a row are a pace.
constexpr std::size_t streak = 5;
constexpr std::size_t few = 5;

// Nobody is hurried whose steps take milliseconds.
constexpr Milliseconds least_suspicion{5'000};
constexpr Milliseconds least_death{60'000};
// Heartbeats are read twice a second: shorter differences are not seen.
constexpr Milliseconds least_slow_step{1'000};

Milliseconds quantile(std::vector<Milliseconds> all, int percent) {
  if (all.empty()) return Milliseconds{0};
  const std::size_t at =
      std::min(all.size() - 1, all.size() * static_cast<std::size_t>(percent) / 100);
  const auto place = all.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(all.begin(), place, all.end());
  return *place;
}

void push(std::deque<Milliseconds>& ring, Milliseconds value, std::size_t limit) {
  ring.push_back(value);
  if (ring.size() > limit) ring.pop_front();
}

}  // namespace

StallWatch::StallWatch(Subject subject, Milliseconds now)
    : subject_(std::move(subject)), ranks_(subject_.nodes.size()), last_call_(now) {
  began_at_ = stepped_at_ = printed_at_ = life_at_ = now;
  for (Watched& rank : ranks_) rank.since = rank.stepped_at = now;
  for (const RankId other : subject_.others)
    ranks_.at(static_cast<std::size_t>(other.value)).ended = true;
  // A controller that was restarted knows what it said and not yet why.
  is_heir_ = subject_.told.has_value();
  if (const auto& told = subject_.told) {
    told_ = Finding{told->stall, told->rank, told->sentence, told->silent_for, told->limit};
  }
}

// ---- what is told -----------------------------------------------------------------------------

Milliseconds StallWatch::watched_time(Milliseconds now) {
  const Milliseconds gap = now - last_call_;
  if (is_unheard_ || is_held() || gap > blind_limit) lost_ += gap;
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
  const bool starts_again = rank->step && step < *rank->step;
  rank->step = step;
  rank->stepped_at = t;
  if (!step_ || starts_again) first_step_ = step;
  if (step_ && step <= *step_ && !starts_again) return;
  step_ = step;
  if (advances_++ > untypical_steps && !is_held()) pace_.add(t - stepped_at_);
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

void StallWatch::seen(RankId rank, const std::vector<std::string>& lines,
                      const std::string& storage) {
  evidence_[rank] = lines;
  if (!storage.empty()) storage_ = storage;
  evidence_is_news_ = true;
}

// ---- telling ----------------------------------------------------------------------------------

std::optional<StallSeen> StallWatch::look(Milliseconds now) {
  const Milliseconds t = watched_time(now);
  if (is_over_ || subject_.settings.off || is_unheard_ || is_held()) return std::nullopt;
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
    storage_.clear();
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
  const bool is_stuck = finding.kind == StallKind::suspect || finding.kind == StallKind::hung;
  if (is_stuck && !storage_.empty()) {
    record.rank.reset();
    record.blamed.reset();
    record.sentence = storage_ + where();
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

// ---- the pace ---------------------------------------------------------------------------------

void StepPace::add(Milliseconds interval) {
  if (is_learned()) {
    const bool is_long = interval > std::max(3 * usual_, least_slow_step);
    const bool is_short = interval <= std::max(2 * usual_, least_slow_step);
    long_in_a_row_ = is_long ? long_in_a_row_ + 1 : 0;
    short_in_a_row_ = is_short ? short_in_a_row_ + 1 : 0;
    if (long_in_a_row_ >= streak) is_slow_ = true;
    if (short_in_a_row_ >= streak) is_slow_ = false;
    if (interval > late_after()) push(pauses_, interval, pauses_remembered);
  }
  push(intervals_, interval, remembered);
  learn();
}

void StepPace::learn() {
  const std::vector<Milliseconds> all(intervals_.begin(), intervals_.end());
  p95_ = quantile(all, 95);
  p99_ = quantile(all, 99);
  const std::size_t latest = std::min(few, all.size());
  recent_ = quantile({all.end() - static_cast<std::ptrdiff_t>(latest), all.end()}, 50);
  if (!is_slow_ && long_in_a_row_ == 0) usual_ = quantile(all, 50);
}

bool StepPace::is_learned() const {
  return intervals_.size() >= enough;
}

Milliseconds StepPace::longest_pause() const {
  if (pauses_.empty()) return Milliseconds{0};
  return *std::ranges::max_element(pauses_);
}

Milliseconds StepPace::late_after() const {
  return std::max(least_suspicion, 4 * p95_);
}

Milliseconds StepPace::suspect_after() const {
  return std::max(late_after(), longest_pause() * 3 / 2);
}

// The reference adds max(60 s, 3 x p99); twenty times the p95 leaves room for a run whose every
// step suddenly takes ten times as long and sleeps through it.
Milliseconds StepPace::dead_after() const {
  return suspect_after() + std::max({least_death, 3 * p99_, 20 * p95_, 2 * longest_pause()});
}

Milliseconds StepPace::lost_after(Milliseconds declared) const {
  return std::max({declared, dead_after(), 60 * p95_, 3 * longest_pause()});
}

}  // namespace muster
