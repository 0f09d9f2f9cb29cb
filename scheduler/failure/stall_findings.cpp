// StallWatch's part that judges: what the ranks are like, and what that amounts to.
#include <algorithm>

#include "scheduler/failure/stall_watch.h"
#include "scheduler/model/names.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

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
