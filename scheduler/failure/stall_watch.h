// Whether the ranks of one attempt still get on, and who holds them up. Told what the agents say
// (steps, output, what each rank does) and the time; asked now and then what there is to tell.
// Deterministic: the same calls give the same findings. Owned by the controller's StallWatchers.
//
// Who is named, and what is done about it (`auto`):
//
//   a rank is stopped (state T), others are not   named when its peers wait twice a usual step, or
//                                                 after 5 s; acted on after 10 s, 30 s unlearned
//   no step, and one rank is behind or alone      suspect, named; acted on like the two below, as
//   in doing nothing                              it may still come back
//   no step, and no rank does anything            suspect; acted on after StepPace::dead_after
//   no step, and ranks compute                    suspect; acted on after StepPace::lost_after:
//                                                 an evaluation looks like that too
//   bytes move, output comes, a checkpoint comes  the run lives: nothing is done
//   no rank ever said a step                      only the first row can act: a program may sleep
//                                                 for an hour by design, a stopped one may not
//   a rank is far behind most others and steps on told: a straggler
//   every rank is stopped                         somebody paused the run: told, not acted on,
//                                                 unless its steps are known
//
// The first five steps teach nothing. A time in which an agent of the attempt is not heard, or in
// which nobody asked (the controller itself was held up), is no time: lost nodes have own rules.
// Nor is one in which a debugger holds a rank: it moves, and its process is the debugger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/model/outcome.h"
#include "scheduler/model/record.h"
#include "scheduler/text/clock.h"

namespace muster {

// How fast a run goes, learned from its own steps: what is usual, what is rare but has happened,
// and whether it has become slow. Pure: knows durations, no clock.
//
// The last 200 intervals count. A streak of long ones does not change what is usual, so that a run
// that becomes slow is told from one that always was.
class StepPace {
 public:
  // The time from one step to the next, as it was seen.
  void add(Milliseconds interval);

  // Before that nothing is usual: there are too few intervals.
  bool is_learned() const;
  Milliseconds usual() const { return usual_; }  // the median
  Milliseconds recent() const { return recent_; }  // the median of the latest few
  // Without a step for so long something may be wrong: longer than all but a few intervals, and
  // than the pauses (saves, evaluations) that the run has shown to get over.
  Milliseconds suspect_after() const;
  // Without a step and without any sign of life for so long nobody will come back.
  Milliseconds dead_after() const;
  // The same for ranks that compute on without a step: an evaluation, a collective that spins.
  Milliseconds lost_after(Milliseconds declared) const;
  // Of the reference alone: max(5 s, 4 x p95).
  Milliseconds late_after() const;
  bool is_slow() const { return is_slow_; }

 private:
  void learn();
  Milliseconds longest_pause() const;

  std::deque<Milliseconds> intervals_;
  std::deque<Milliseconds> pauses_;  // the latest that were longer than `late_after`
  Milliseconds usual_{0};
  Milliseconds recent_{0};
  Milliseconds p95_{0};
  Milliseconds p99_{0};
  std::size_t long_in_a_row_ = 0;
  std::size_t short_in_a_row_ = 0;
  bool is_slow_ = false;
};

class StallWatch {
 public:
  struct Subject {
    JobId job;
    AttemptId attempt;
    HangSettings settings;
    std::vector<NodeId> nodes;  // by rank
    bool beats = false;         // an earlier attempt of the job told its steps
    std::optional<StallSeen> told{};  // by a watch before this one
    std::set<RankId> others{};        // ranks that take no part: nothing is expected of them
  };

  // `now` here and below: on a clock that never goes back. Every rank runs from now on.
  StallWatch(Subject subject, Milliseconds now);

  void stepped(RankId rank, std::int64_t step, Milliseconds now);
  void printed(Milliseconds now);     // any output
  void checkpointed(Milliseconds now);
  void does(const RankDoing& doing, Milliseconds now);
  // What moves on a node's network is nobody's in particular.
  void network(const NodeId& node, bool moves, Milliseconds now);
  void ended(RankId rank, Milliseconds now);
  void unheard(bool is_any_agent, Milliseconds now);
  // What was found about a suspected rank.
  void seen(RankId rank, const std::vector<std::string>& lines, const std::string& storage = {});

  // What there is to tell now: a change, or nothing. After `hung` never again anything.
  std::optional<StallSeen> look(Milliseconds now);
  // Whom to look at closely: the suspect and a few others to compare with; empty: nobody.
  std::vector<RankId> suspects() const;

 private:
  struct Watched {
    std::optional<std::int64_t> step;
    Milliseconds stepped_at{0};
    Doing doing = Doing::working;
    Milliseconds since{0};
    std::string process;
    bool ended = false;
  };
  struct Finding {
    StallKind kind = StallKind::slow;
    std::optional<RankId> rank;
    std::string sentence;
    Milliseconds silent_for{0};
    Milliseconds limit{0};
  };

  Milliseconds watched_time(Milliseconds now);
  Watched* find(RankId rank);
  std::optional<Finding> finding(Milliseconds t) const;
  std::optional<Finding> stopped(Milliseconds t) const;
  std::optional<Finding> stuck(Milliseconds t) const;
  std::optional<Finding> over_timeout(Milliseconds t) const;
  std::optional<Finding> before_first_step(Milliseconds t) const;
  std::optional<Finding> without_step(Milliseconds t) const;
  std::optional<Finding> slow() const;
  std::optional<Finding> straggling() const;
  std::optional<Finding> asleep(Milliseconds t) const;
  Milliseconds act_after(const std::optional<RankId>& culprit) const;
  std::optional<RankId> culprit(Milliseconds t) const;
  std::optional<RankId> behind() const;
  std::optional<RankId> alone_in_quiet(Milliseconds t) const;
  std::optional<RankId> lowest(Doing doing) const;
  bool must_have_step() const;
  bool is_quiet(const Watched& rank) const;
  std::size_t watched() const { return ranks_.size() - subject_.others.size(); }
  bool is_held() const;
  std::size_t alive() const;
  std::size_t alive_and(Doing doing) const;
  bool all_quiet() const;
  Milliseconds last_life(Milliseconds t) const;
  std::optional<StallSeen> tell(const std::optional<Finding>& found);
  StallSeen record_of(const Finding& finding) const;
  const Watched& at(RankId rank) const;
  std::string about(RankId rank) const;  // who it is and what it does
  std::string who(RankId rank) const;
  std::string what_it_does(RankId rank) const;
  std::string where() const;

  Subject subject_;
  std::vector<Watched> ranks_;
  StepPace pace_;
  Milliseconds last_call_;
  Milliseconds lost_{0};  // time that does not count
  Milliseconds began_at_{0};
  Milliseconds stepped_at_{0};  // the latest step of any rank
  Milliseconds printed_at_{0};
  Milliseconds life_at_{0};
  std::optional<std::int64_t> step_;  // of the foremost rank
  std::int64_t first_step_ = 0;       // that was told
  int advances_ = 0;
  bool is_unheard_ = false;
  bool has_ended_ranks_ = false;
  std::set<NodeId> busy_networks_;
  std::map<RankId, std::vector<std::string>> evidence_;
  bool evidence_is_news_ = false;
  std::map<RankId, std::string> storage_;  // why data do not come, which then is nobody's fault
  std::optional<Finding> told_;
  int tellings_ = 0;
  bool is_heir_ = false;  // what was told last is not of its own finding
  bool is_over_ = false;
};

}  // namespace muster
