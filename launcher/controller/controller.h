// The controller: one loop around the core. Observations wait in an inbox; `turn` journals them
// with the decisions they lead to in one transaction and only then performs. When the store cannot
// be written, State is rebuilt from the journal and the turn is tried again: nothing is performed
// that is not on disk, and nothing at all while the journal cannot be read. One thread. Time, the
// network, the journal and the clients are given to it: a simulation gives others.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "launcher/controller/agents/deliveries.h"
#include "launcher/controller/agents/inbox.h"
#include "launcher/controller/agents/node_folders.h"
#include "launcher/controller/agents/pool.h"
#include "launcher/controller/agents/rank_logs.h"
#include "launcher/controller/agents/remediation.h"
#include "launcher/controller/agents/stall_watchers.h"
#include "launcher/controller/agents/work_sender.h"
#include "launcher/controller/clients/exec_relay.h"
#include "launcher/controller/clients/health.h"
#include "launcher/controller/clients/requests.h"
#include "launcher/controller/store/home.h"
#include "launcher/controller/store/job_rows.h"
#include "launcher/controller/store/journal.h"
#include "scheduler/state/state.h"

namespace muster {

struct ControllerSettings {
  Home home;
  AgentLaunch launch;
  std::string secret_key{};  // of this state directory: secrets of attempts are made from it
  // A controller without live jobs or clients ends itself: ten minutes keep agents warm between the
  // runs of somebody who is trying things. 0: never.
  Seconds idle_limit{600};
  std::vector<std::string> clean_command{};  // runs now and then; empty: nothing is cleaned here
};

class Controller final : public Observer, private NodeListener {
 public:
  // What the process around it provides.
  struct Process {
    std::function<bool()> has_clients;
    std::function<void()> end;  // asked for by a client, or idle for long enough
    RunCommand run{};           // a command of the site on this host
  };

  Controller(Timers& timers, ControllerSettings settings, std::unique_ptr<Journal> journal,
             std::unique_ptr<Transport> transport, Process process);

  // Replays the journal and takes up the work that is pending.
  Status start();
  Requests::Context request_context();
  void client_gone(const std::shared_ptr<Session>& session);
  // A request of a client journals first and answers with the outcome.
  using Answer = std::function<void(Status)>;
  void observe(Observation what, Answer answer);
  void observe(Observation what) override { observe(std::move(what), {}); }

 private:
  struct Incoming {
    Observation what;
    Answer answer;
  };

  Status replay();
  void post_turn() override;
  void turn();
  Status journal(const std::deque<Incoming>& batch);
  void turn_failed(std::deque<Incoming> batch, const Error& why);
  void perform();
  void close_attempt(const Record& record);
  void note_nodes(const Record& record);
  void forget(const Record& record);
  void clean_later(Milliseconds pause);
  void renew_lease(const Record& record);
  void ask_for_outputs_again();
  void hold_unclean_nodes();
  void schedule_wake();
  bool is_busy() const;
  void watch_idleness();
  void shut_down();
  void end_when_sent(SteadyTime deadline);

  // After all the other listeners.
  void node_up(const NodeId& node, const Welcome& welcome) override;
  void node_down(const NodeId& node, const LinkFailure& failure) override;
  void progress(const JobId& job, const JobEvent& event) override;
  void report_first_contact(const LinkUp& up);
  void note(const JobId& job, const std::string& sentence) override;

  Timers& timers_;
  ControllerSettings settings_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Transport> transport_;
  Process process_;
  State state_;
  bool state_is_journal_ = false;
  JobRows rows_;
  std::deque<Incoming> inbox_;
  std::unique_ptr<Alarm> turn_alarm_;  // while a turn is due
  std::vector<Record> fresh_;          // of this turn, not yet performed
  std::unique_ptr<Alarm> wake_;
  std::unique_ptr<Alarm> idle_;
  std::unique_ptr<Alarm> cleaning_;
  std::unique_ptr<Alarm> steps_;  // while steps wait to be stored
  SteadyTime last_busy_;
  RankLogs logs_;
  Watchers watchers_;
  AgentPool pool_;
  WorkSender sender_;
  Relay relay_;
  NodeHealthService health_;
  RemediationService remedies_;
  OutputDeliveries deliveries_;
  AgentInbox inbox_of_agents_;
  StallWatchers stalls_;
  NodeFolders folders_;
  std::map<JobId, std::vector<NodeId>> attempt_nodes_;  // who may forget the attempt when it ends
};

}  // namespace muster
