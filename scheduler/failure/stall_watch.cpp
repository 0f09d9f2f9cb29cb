#include "scheduler/failure/stall_watch.h"

#include <algorithm>

#include "scheduler/model/names.h"
#include "scheduler/state/sentences.h"

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

// A stop shorter than that is somebody looking: a debugger, a dump of the memory.
constexpr Milliseconds stop_named{5'000};
constexpr Milliseconds stop_acted{10'000};
// Without steps to go by.
constexpr Milliseconds stop_acted_blindly{30'000};

// A file server that reboots is back in two minutes and its clients go on; the kernel itself
// complains about a task after two.
constexpr Milliseconds stuck_named{60'000};
constexpr Milliseconds stuck_acted{600'000};

// Agents tell of idleness after ten seconds, a few sooner than the others: who is idle first is not
// alone yet.
constexpr Milliseconds alone_after{25'000};

// A program that does nothing at all for so long is worth a word; sleeping is no crime.
constexpr Milliseconds asleep_named{600'000};

// Ranks that wait for each other differ by one step; heartbeats are read every half second.
constexpr std::int64_t straggler_lag = 20;

StallKind kind_if(bool acts) {
  return acts ? StallKind::hung : StallKind::suspect;
}

// A limit somebody set is spoken of before it is reached.
bool is_near(Milliseconds silent_for, Milliseconds limit) {
  return silent_for >= limit * 3 / 4;
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
  storage_.erase(rank);
  if (!storage.empty()) storage_[rank] = storage;
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
    record.sentence = storage_.begin()->second + where();
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

// ---- what the ranks are like ------------------------------------------------------------------

const StallWatch::Watched& StallWatch::at(RankId rank) const {
  return ranks_[static_cast<std::size_t>(rank.value)];
}

bool StallWatch::is_held() const {
  return std::ranges::any_of(ranks_, [](const Watched& one) {
    return !one.ended && one.doing == Doing::moving && !one.process.empty();
  });
}

std::size_t StallWatch::alive() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(ranks_, [](const Watched& one) { return !one.ended; }));
}

std::size_t StallWatch::alive_and(Doing doing) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      ranks_, [doing](const Watched& one) { return !one.ended && one.doing == doing; }));
}

bool StallWatch::is_quiet(const Watched& rank) const {
  return rank.doing == Doing::quiet || rank.doing == Doing::stopped;
}

bool StallWatch::all_quiet() const {
  return busy_networks_.empty() && std::ranges::all_of(ranks_, [this](const Watched& one) {
           return one.ended || is_quiet(one);
         });
}

Milliseconds StallWatch::last_life(Milliseconds t) const {
  return alive_and(Doing::moving) > 0 ? t : std::max(life_at_, stepped_at_);
}

// Of those that do that, the one that has got least far.
std::optional<RankId> StallWatch::lowest(Doing doing) const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].ended || ranks_[i].doing != doing) continue;
    if (!found || ranks_[i].step < ranks_[*found].step) found = i;
  }
  if (!found) return std::nullopt;
  return RankId{static_cast<std::int64_t>(*found)};
}

// In many programs only rank 0 tells its steps; then no other is late with one.
bool StallWatch::must_have_step() const {
  const auto beating =
      std::ranges::count_if(ranks_, [](const Watched& one) { return one.step.has_value(); });
  return beating > 1 && 2 * static_cast<std::size_t>(beating) > watched();
}

// The only rank that has got less far than all others.
std::optional<RankId> StallWatch::behind() const {
  std::optional<std::size_t> last;
  std::size_t as_late = 0;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Watched& one = ranks_[i];
    if (one.ended || (!one.step && !must_have_step())) continue;
    if (!last || one.step < ranks_[*last].step) {
      last = i;
      as_late = 0;
    }
    if (one.step == ranks_[*last].step) ++as_late;
  }
  if (!last || as_late != 1 || ranks_[*last].step == step_) return std::nullopt;
  return RankId{static_cast<std::int64_t>(*last)};
}

// Peers that wait in a collective mostly spin: who does nothing is not waiting with them.
std::optional<RankId> StallWatch::alone_in_quiet(Milliseconds t) const {
  const std::size_t quiet = alive_and(Doing::quiet) + alive_and(Doing::stuck);
  if (quiet != 1 || alive() < 3 || alive_and(Doing::working) + 1 != alive()) return std::nullopt;
  const auto rank = alive_and(Doing::quiet) == 1 ? lowest(Doing::quiet) : lowest(Doing::stuck);
  const bool is_alone = t - at(*rank).since >= alone_after;
  return is_alone ? rank : std::nullopt;
}

std::optional<RankId> StallWatch::culprit(Milliseconds t) const {
  const std::size_t stopped = alive_and(Doing::stopped);
  if (stopped > 0 && stopped < alive()) return lowest(Doing::stopped);
  if (auto rank = behind()) return rank;
  return alone_in_quiet(t);
}

// ---- what is found ----------------------------------------------------------------------------

std::optional<StallWatch::Finding> StallWatch::stopped(Milliseconds t) const {
  const std::size_t count = alive_and(Doing::stopped);
  if (count == 0 || count == alive()) return std::nullopt;
  const RankId id = *lowest(Doing::stopped);
  const Watched& rank = at(id);
  const Milliseconds stopped_for = t - rank.since;
  const Milliseconds silent_for = t - (rank.step ? rank.stepped_at : stepped_at_);
  const bool is_learned = pace_.is_learned();
  const bool is_missed = is_learned && silent_for >= 2 * pace_.usual();
  if (!is_missed && stopped_for < stop_named) return std::nullopt;
  const bool is_late = is_learned && silent_for >= pace_.late_after();
  const bool acts = stopped_for >= stop_acted_blindly || (is_late && stopped_for >= stop_acted);
  return Finding{kind_if(acts && !subject_.settings.timeout), id,
                 about(id) + where() + "; " + duration_text(stopped_for) + " so far", silent_for,
                 is_learned ? pace_.late_after() : stop_acted_blindly};
}

std::optional<StallWatch::Finding> StallWatch::stuck(Milliseconds t) const {
  const std::size_t count = alive_and(Doing::stuck);
  if (count == 0 || count == alive()) return std::nullopt;
  const RankId id = *lowest(Doing::stuck);
  const Watched& rank = at(id);
  const Milliseconds stuck_for = t - rank.since;
  if (stuck_for < stuck_named) return std::nullopt;
  const bool acts = stuck_for >= stuck_acted && last_life(t) < rank.since;
  return Finding{kind_if(acts && !subject_.settings.timeout), id,
                 about(id) + " for " + duration_text(stuck_for), stuck_for, stuck_acted};
}

// What the user asked for, to the letter.
std::optional<StallWatch::Finding> StallWatch::over_timeout(Milliseconds t) const {
  const HangSettings& asked = subject_.settings;
  const bool by_output = asked.watch == HangWatch::output;
  const Milliseconds last = by_output ? printed_at_ : stepped_at_;
  const bool is_first = by_output ? printed_at_ == began_at_ : !step_.has_value();
  const Milliseconds limit = is_first ? std::max(*asked.timeout, asked.first_step) : *asked.timeout;
  Finding found;
  found.silent_for = t - last;
  found.limit = limit;
  if (!is_near(found.silent_for, limit)) return std::nullopt;
  found.kind = kind_if(found.silent_for >= limit);
  found.rank = culprit(t);
  found.sentence = std::string(is_first ? "no first " : "no new ") +
                   (by_output ? "output" : "step") + where() + " for " +
                   duration_text(found.silent_for) + " (muster.hang." +
                   (is_first && asked.first_step > *asked.timeout ? "first_step" : "timeout") +
                   ": " + duration_text(limit) + ")";
  if (found.rank) found.sentence += "; " + about(*found.rank);
  return found;
}

// Steps are known to come, from this attempt or an earlier one, and are not learned yet.
std::optional<StallWatch::Finding> StallWatch::before_first_step(Milliseconds t) const {
  if (!step_ && !subject_.beats) return std::nullopt;
  const Milliseconds limit = subject_.settings.first_step;
  Finding found;
  found.silent_for = t - last_life(t);
  found.limit = limit;
  if (!is_near(found.silent_for, limit)) return std::nullopt;
  found.kind = kind_if(found.silent_for >= limit);
  found.rank = culprit(t);
  found.sentence = "no " + std::string(step_ ? "further" : "first") + " step" + where() + " for " +
                   duration_text(t - stepped_at_) +
                   " (muster.hang.first_step: " + duration_text(limit) + ")";
  if (found.rank) found.sentence += "; " + about(*found.rank);
  return found;
}

Milliseconds StallWatch::act_after(const std::optional<RankId>& culprit) const {
  const bool idle = culprit && is_quiet(at(*culprit));
  if (idle || all_quiet()) return pace_.dead_after();
  return pace_.lost_after(subject_.settings.first_step);
}

std::optional<StallWatch::Finding> StallWatch::without_step(Milliseconds t) const {
  Finding found;
  found.silent_for = t - stepped_at_;
  if (found.silent_for < pace_.suspect_after()) return std::nullopt;
  found.rank = culprit(t);
  found.limit = act_after(found.rank);
  const bool acts = t - last_life(t) >= found.limit;
  found.kind = kind_if(acts);
  found.sentence = "no step" + where() + " for " + duration_text(found.silent_for) + ", " +
                   duration_text(pace_.usual()) + " is usual";
  found.sentence += found.rank    ? "; " + about(*found.rank)
                    : all_quiet() ? "; no rank does anything"
                                  : "; no rank can be named";
  return found;
}

std::optional<StallWatch::Finding> StallWatch::slow() const {
  if (!pace_.is_slow()) return std::nullopt;
  return Finding{StallKind::slow, std::nullopt,
                 "steps take " + duration_text(pace_.recent()) + ", " +
                     duration_text(pace_.usual()) + " is usual",
                 pace_.recent(), pace_.usual()};
}

// Of ranks that do not wait for each other: one that does less than three quarters of what most do.
std::optional<StallWatch::Finding> StallWatch::straggling() const {
  if (!step_ || !must_have_step()) return std::nullopt;
  std::vector<std::int64_t> steps;
  std::size_t last = ranks_.size();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].ended || !ranks_[i].step) continue;
    steps.push_back(*ranks_[i].step);
    if (last == ranks_.size() || ranks_[i].step < ranks_[last].step) last = i;
  }
  if (steps.size() < 3 || *step_ - *ranks_[last].step < straggler_lag) return std::nullopt;
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  const std::int64_t lag = *middle - *ranks_[last].step;
  if (lag < straggler_lag || 4 * lag < *middle - first_step_) return std::nullopt;
  Finding found;
  found.rank = RankId{static_cast<std::int64_t>(last)};
  found.sentence = who(*found.rank) + " is at step " + std::to_string(*ranks_[last].step) +
                   ", where most are at " + std::to_string(*middle);
  return found;
}

std::optional<StallWatch::Finding> StallWatch::asleep(Milliseconds t) const {
  if (step_ || alive() == 0 || !all_quiet()) return std::nullopt;
  Milliseconds since = printed_at_;
  for (const Watched& one : ranks_) {
    if (!one.ended) since = std::max(since, one.since);
  }
  const bool is_paused = alive_and(Doing::stopped) == alive();
  const Milliseconds limit = is_paused ? stop_acted : asleep_named;
  if (t - since < limit) return std::nullopt;
  return Finding{StallKind::slow, std::nullopt,
                 is_paused ? "every rank is stopped by a signal: somebody paused the run"
                           : "no rank has used a processor, moved data or written output for " +
                                 duration_text(limit),
                 t - since, limit};
}

// The end of a run is no step: who has ended waits for nobody, and the others save or upload.
std::optional<StallWatch::Finding> StallWatch::finding(Milliseconds t) const {
  if (alive() == 0) return std::nullopt;
  if (subject_.settings.timeout) {
    if (auto found = over_timeout(t)) return found;
  }
  if (auto found = stopped(t)) return found;
  if (auto found = stuck(t)) return found;
  if (!subject_.settings.timeout && !has_ended_ranks_) {
    auto found = pace_.is_learned() ? without_step(t) : before_first_step(t);
    if (found) return found;
  }
  if (auto found = slow()) return found;
  if (auto found = straggling()) return found;
  return asleep(t);
}

// ---- words ------------------------------------------------------------------------------------

std::string StallWatch::who(RankId rank) const {
  return "rank " + std::to_string(rank.value) + " on " +
         subject_.nodes[static_cast<std::size_t>(rank.value)].value;
}

std::string StallWatch::about(RankId rank) const {
  return who(rank) + what_it_does(rank);
}

std::string StallWatch::where() const {
  return step_ ? " after step " + std::to_string(*step_) : "";
}

std::string StallWatch::what_it_does(RankId id) const {
  const Watched& rank = at(id);
  const std::string process = rank.process.empty() ? "" : ", process " + rank.process;
  const bool is_late = rank.step && step_ && *rank.step < *step_;
  const std::string late = is_late ? ", at step " + std::to_string(*rank.step) : "";
  const std::string words[] = {" moves data", " computes", " does nothing",
                               " is in uninterruptible sleep (state D" + process + ")",
                               " is stopped by a signal (state T" + process + ")"};
  static_assert(std::size(words) == EnumWords<Doing>::words.size());
  return words[static_cast<std::size_t>(rank.doing)] + late;
}

}  // namespace muster
