// The attempts of this node and what is done for each: files staged, ranks and their output,
// checkpoints watched, outputs collected, what its mpirun asks of other nodes, and all of it
// removed when nobody wants it any more. Owned by Agent, on its thread.
//
//   staged, restored or started ─► held ─► told to be forgotten, and nothing of it left ─► gone
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/attempt/attempt.h"
#include "launcher/agent/node/child_tasks.h"
#include "launcher/agent/node/peer.h"
#include "launcher/agent/staging.h"
#include "launcher/agent/watch/checkpoint.h"

namespace muster {

class Attempts {
 public:
  // What the rest of the agent knows.
  struct Questions {
    std::function<bool(const AttemptKey&)> is_deciding;  // what killed a rank of it
    std::function<std::set<pid_t>()> other_sessions;     // the agent's own programs
  };

  Attempts(const AgentSite& site, ChildTasks& tasks, std::string agent_id, Questions questions);

  // What an earlier agent left.
  void restore();
  LocalAttempt* find(const AttemptKey& key);
  bool are_none() const { return held_.empty(); }
  std::vector<HeldAttempt> list() const;
  bool run_ranks() const { return is_any(&LocalAttempt::has_ranks); }
  bool are_stopping() const {
    return is_any(&LocalAttempt::is_stopping) || is_any(&LocalAttempt::awaits_metrics);
  }
  bool are_running() const { return is_any(&LocalAttempt::is_running); }
  bool need_keeper() const { return is_any(&LocalAttempt::needs_keeper); }
  Status ensure_keeper();
  void replace_keeper();  // one that was killed, while there is something to keep
  void reaped(const DeadChild& child);

  void start(const StartRanks& request);
  void stop(const StopAttempt& request);
  // All that nobody has told to stop.
  void stop_all(Milliseconds grace);
  void kill_all();
  void forget(const ForgetAttempt& request);

  void handle(const StageTrees& request, std::string_view);
  void handle(const BlobData& piece, std::string_view payload);
  void handle(const ReservePorts& request, std::string_view);
  void handle(const SetMembers& request, std::string_view);
  void handle(const CollectOutputs& request, std::string_view);
  void handle(const LookAtRanks& request, std::string_view);
  void handle(const OutputAck& ack, std::string_view);
  void handle(const ForgetJob& request, std::string_view);
  void handle(const RemoteStart& request, std::string_view);
  // What programs of node 0 ask of another node goes through the controller, by a ticket until it
  // has ended: mpirun's daemon, or a command through the door.
  void ask(const std::shared_ptr<PeerConnection>& asker, RemoteStartAsked asked);
  void handle(const RemoteStartEnded& ended, std::string_view);
  void handle(const RemoteOutput& piece, std::string_view payload);
  void handle(const RemoteOutputAck& ack, std::string_view);

  // Twice a second.
  void poll();
  // Anything that can bring one forward: time, a dead child. Then what can be forgotten is.
  void step();
  void remove_forgotten();
  void move_output();
  void watch_saving(const AttemptKey& key);
  void report_known();  // to a controller that may not know it
  void line_lost();

 private:
  struct Held {
    Held(const AgentSite& site, const AttemptKey& key) : attempt(site, key) {}
    LocalAttempt attempt;
    std::optional<CheckpointWatch> checkpoints;
    std::optional<CheckpointGrowth> growth;
  };

  struct Ask {
    std::shared_ptr<PeerConnection> asker;
    RemoteStartAsked asked;
    std::int64_t received = 0;  // of what the command writes
    std::string node{};         // where that comes from
  };

  Held& hold(const AttemptKey& key);
  Result<RemoteStartAsked> admit(RemoteStartAsked asked);
  void acknowledge(const AttemptKey& key, RankId rank, std::int64_t offset);
  void acknowledge_output(const std::string& ticket);
  bool is_any(bool (LocalAttempt::*holds)() const) const;
  AttemptStop::Find finder(const LocalAttempt& attempt) const;
  void report_clean_if_owed(Held& held);
  void report_clean(Held& held);
  void watch_checkpoints(Held& held);
  void watch_saving(Held& held);
  bool can_forget(const AttemptKey& key) const;
  void forget_jobs();
  void discard(const std::string& path);  // out of the way at once, removed by a child later
  void remove_discarded();

  const AgentSite& site_;
  ChildTasks& tasks_;
  Questions questions_;
  AttemptStaging staging_;
  OutputCollection collection_;
  std::map<AttemptKey, Held> held_;
  std::set<AttemptKey> forgotten_;        // once they are clean
  std::map<JobId, bool> forgotten_jobs_;  // once no attempt of it is held; true: outputs too
  std::map<std::string, Ask> asks_;       // by ticket
  std::uint64_t next_ticket_ = 1;
  std::string agent_id_;
  std::vector<std::string> trash_;
  std::uint64_t next_trash_name_ = 1;
  BootTime remove_trash_at_;
};

}  // namespace muster
