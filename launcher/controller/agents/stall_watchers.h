// One StallWatch (scheduler/failure/stall_watch.h) for each attempt that runs, and of an elastic
// one for each epoch of its members: told what the agents say, asked twice a second. What it finds
// becomes an observation; of a suspicion the agents are asked for a closer look at the ranks. Owned
// by the Controller, on its thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "launcher/controller/agents/pool.h"
#include "launcher/os/timers.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/failure/stall_watch.h"
#include "scheduler/state/state.h"

namespace muster {

class StallWatchers final : public NodeListener {
 public:
  using Ask = std::function<void(const NodeId&, const LookAtRanks&)>;

  StallWatchers(Timers& timers, const State& state, Observer& observer, Ask ask);

  void node_up(const NodeId& node, const Welcome& welcome) override;
  void node_down(const NodeId& node, const LinkFailure& failure) override;
  bool take(const NodeId& node, const FromAgent& message, std::string_view payload) override;
  void attempt_over(const JobId& job);
  // State has changed: something may run now.
  void follow();

 private:
  struct Entry {
    AttemptId attempt;
    std::int64_t members_epoch = 0;
    std::vector<NodeId> nodes;  // by rank
    std::set<NodeId> needed;    // those whose ranks are watched
    StallWatch watch;
    std::set<NodeId> unheard;
    std::optional<StallSeen> told;
    std::optional<SteadyTime> asked_at;  // for a closer look
  };

  Milliseconds now() const;
  Entry* entry_of(const JobId& job, AttemptId attempt);
  Entry make_entry(const Job& job, const Attempt& attempt) const;
  // The entry, if the rank runs on that node in that attempt, and its node is watched.
  Entry* owner(const NodeId& node, const JobId& job, AttemptId attempt, RankId rank);
  void take_activity(const NodeId& node, const RankActivity& news);
  void take_looks(const NodeId& node, const RanksLookedAt& seen);
  void take_progress(const NodeId& node, const Progress& progress);
  void look();
  void look_at(Entry& entry);
  void ask_for_look(const StallSeen& suspicion, Entry& entry) const;

  Timers& timers_;
  const State& state_;
  Observer& observer_;
  Ask ask_;
  std::map<JobId, std::unique_ptr<Entry>> entries_;
  std::set<NodeId> up_;
  std::set<JobId> beating_;       // jobs that have told a step, while this controller lives
  std::unique_ptr<Alarm> alarm_;  // while anything runs
};

}  // namespace muster
