// What agents say becomes observations, log bytes, progress and files. An agent is heard about the
// attempts of its own node only: what runs and, for the rest of the output, what is over. What is
// said again (after a reconnection) changes nothing in State.
//
// Files that come are put in place before the record that says so: at the end of an attempt those
// of all nodes together, earlier those of each node that leaves it while the others go on.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "launcher/controller/agents/pool.h"
#include "launcher/controller/agents/rank_logs.h"
#include "launcher/controller/store/home.h"
#include "launcher/staging/file_sink.h"
#include "scheduler/decide/decide.h"
#include "scheduler/restart/rule_book.h"
#include "scheduler/state/state.h"

namespace muster {

class AgentInbox final : public NodeListener {
 public:
  using IsOver = std::function<bool(const NodeId&, const JobId&, AttemptId)>;  // journal.h

  // A turn is posted when `clears_away` has become false for something.
  AgentInbox(Timers& timers, Home home, const State& state, AgentPool& pool, RankLogs& logs,
             Observer& observer, IsOver is_over);

  bool take(const NodeId& node, const FromAgent& message, std::string_view payload) override;
  // Attempts that are over are stopped, send what is left, and are forgotten.
  void node_up(const NodeId& node, const Welcome& welcome) override;
  // The node still ends what it ran before of the attempt that wants this now.
  bool clears_away(const NodeWork& work) const;
  void attempt_over(const JobId& job, AttemptId attempt);
  // Puts what the nodes sent in place. Says to the job's followers what was renamed or left out.
  Status settle_files(const JobId& job);
  // A controller was killed before it did so.
  bool has_left_files(const JobId& job) const;

 private:
  struct Seen {
    std::optional<Time> journaled;
    std::optional<std::int64_t> step;
    std::optional<std::int64_t> journaled_step;
    std::optional<CheckpointRef> checkpoint;
    int metrics_from = 1 << 30;  // 0: $MUSTER_METRICS; n: of node n - 1
  };
  using HeldBy = std::tuple<NodeId, JobId, AttemptId>;
  struct Arrival {  // of one node's outputs, since it was asked for them
    std::int64_t bytes = 0;
    std::optional<Time> told;
    std::string trouble;  // the first; empty: none
  };

  bool is_rank_of(const NodeId& node, const JobId& job, AttemptId attempt, RankId rank) const;
  void clean(const NodeId& node, const AttemptClean& clean);
  template <class Message>
  void observe_if_ours(const NodeId& node, const Message& message, Observation what);
  void output(const NodeId& node, const RankOutput& piece, std::string_view payload);
  void note_first_output(const NodeId& node, const RankOutput& piece);
  void rank_ended(const NodeId& node, const RankEnded& ended);
  const RuleBook& rules_of(const JobId& job);
  std::optional<ClockInterval> when_of(const NodeId& node, const RankEnded& ended);
  void progress(const NodeId& node, const Progress& progress);
  void note_beat(const NodeId& node, const Progress& progress);
  void journal_step(const JobId& job, AttemptId attempt,
                    const std::optional<CheckpointRef>& checkpoint);
  void file(const NodeId& node, const FileData& piece, std::string_view payload);
  Result<FileSink> open_sink(const JobId& job, AttemptId attempt) const;
  FileSink* sink_of(const JobId& job, AttemptId attempt, Arrival& arrival);
  void outputs_sent(const NodeId& node, const CollectDone& sent);
  Status settle_leaver(const CollectDone& collected, int index);
  bool is_last_to_deliver(const NodeId& node, const CollectDone& collected) const;
  bool is_spare(const JobId& job, AttemptId attempt, const NodeId& node) const;
  void node_checked(const NodeId& node, const CheckDone& done);
  void notice_seen(const NodeId& node, const NoticeSeen& seen);
  void faults_told(const NodeId& node, const FaultsTold& told);
  bool misses_a_node(const JobId& job) const;
  int node_index(const JobId& job, AttemptId attempt, const NodeId& node) const;

  Timers& timers_;
  Home home_;
  const State& state_;
  AgentPool& pool_;
  RankLogs& logs_;
  Observer& observer_;
  IsOver is_over_;
  mutable std::map<NodeId, std::size_t> places_;  // where a node was last found in its attempt
  std::map<JobId, Seen> seen_;
  std::map<JobId, std::set<NodeId>> wrote_;  // nodes of which output has come
  std::map<JobId, RuleBook> rules_;          // of attempts in which a rank failed
  std::map<JobId, std::unique_ptr<FileSink>> sinks_;
  std::map<std::pair<JobId, NodeId>, Arrival> arrivals_;
  std::map<std::pair<JobId, NodeId>, std::set<RankId>> beats_;  // of nodes that join, since Welcome
  std::set<HeldBy> clearing_;
  std::map<NodeId, NodeFaultsSeen> faults_;  // as told last, since the agent's greeting
};

// Words of agents and commands on their way into the journal: more is no help to anybody, and a
// broken agent must not fill it. Pure functions.

// The beginning, as UTF-8.
void limit_text(std::string& text);

// Each of them; of too many, the last.
void limit_lines(std::vector<std::string>& lines);

}  // namespace muster
