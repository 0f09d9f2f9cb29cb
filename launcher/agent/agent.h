// The agent of one node: hears the controller, owns the attempts, keeps the lease. One thread, one
// io_context; every handler runs there. The work on each noun is in the classes below.
//
//   serving -> leaving (lease over, SIGINT): ranks killed and proven gone -> gone
//   serving -> ending (SIGTERM: the host shuts down): ranks stopped, then leaving
//   serving -> gone (Retire, and no attempt is held)
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/agent_lease.h"
#include "launcher/agent/attempt/attempt.h"
#include "launcher/agent/exec/sessions.h"
#include "launcher/agent/health/command.h"
#include "launcher/agent/health/gate_benchmark.h"
#include "launcher/agent/health/monitor.h"
#include "launcher/agent/health/remediation.h"
#include "launcher/agent/keeper/cleaning.h"
#include "launcher/agent/node/child_tasks.h"
#include "launcher/agent/node/controller_line.h"
#include "launcher/agent/node/peer.h"
#include "launcher/agent/preemption_notice.h"
#include "launcher/agent/staging.h"
#include "launcher/agent/watch/checkpoint.h"
#include "launcher/agent/watch/oom.h"
#include "launcher/os/clocks.h"
#include "launcher/os/fd.h"
#include "runtime/protocol/boot_clock.h"

namespace muster {

// Where an agent lives: what it sees of the machine, and who looks after its ranks when it cannot.
struct AgentHost {
  ProcessTable& processes;
  const AgentClock& clock;
  Keeper& keeper;
  Lease& lease;
};

class Agent {
 public:
  // Takes over what an earlier agent left, the pipes that its keeper holds until somebody listens.
  Agent(boost::asio::io_context& io, const RunDirectory& run, AgentHost host,
        std::string build_id);
  ~Agent();

  // From here on it answers.
  void open(Fd listener);
  // What there is to do as time passes: twice a second, and more often while something ends.
  void tick();
  // Of no attempt there are processes or output that only pipes hold.
  bool has_left_nothing() const;

 private:
  using Socket = boost::asio::local::stream_protocol::socket;
  using LookClock = boost::asio::steady_timer::clock_type;

  // agent_connections.cpp
  void accept_next();
  void first_frame(const std::shared_ptr<PeerConnection>& peer, Frame frame);
  static std::optional<ClockStamps> clock_stamps(std::optional<std::int64_t> sent_us);
  void greet(const std::shared_ptr<PeerConnection>& peer, const Hello& hello);
  void controller_frame(Frame frame);
  void line_lost();
  void ask_remote_start(const std::shared_ptr<PeerConnection>& peer, RemoteStartAsked asked);

  // agent_requests.cpp
  void on(const Hello&, std::string_view) {}
  void on(const Ping& ping, std::string_view);
  void on(const CheckNode& request, std::string_view);
  void on(const StageTrees& request, std::string_view);
  void on(const BlobData& piece, std::string_view payload);
  void on(const ReservePorts& request, std::string_view);
  void on(const StartRanks& request, std::string_view);
  void on(const SetMembers& request, std::string_view);
  void on(const StopAttempt& request, std::string_view);
  void on(const CollectOutputs& request, std::string_view);
  void on(const LookAtRanks& request, std::string_view);
  void on(const OutputAck& ack, std::string_view);
  void on(const ForgetAttempt& request, std::string_view);
  void on(const ForgetJob& request, std::string_view);
  void on(const ExecStart& request, std::string_view);
  void on(const ExecInput& input, std::string_view payload);
  void on(const ExecStop& request, std::string_view);
  void on(const RemoteStart& request, std::string_view);
  void on(const RemoteStartEnded& ended, std::string_view);
  void on(const FaultsMended& request, std::string_view);
  void on(const WatchHealth& request, std::string_view);
  void on(const LookAtHealth& request, std::string_view);
  void on(const MeasureNode& request, std::string_view);
  void on(const RunRemedy& request, std::string_view);
  void on(const Retire&, std::string_view);
  void check(CheckNode request, std::int64_t asked_ms, std::vector<CheckFailure> failures);
  void checked(const CheckNode& request, std::int64_t asked_ms, std::string frame);
  bool end_check(const AttemptKey& attempt);
  void when_none_measures(std::function<void()> then);
  void go_on_after_measurements();
  void end_measures_of_others(const JobId& job);
  void end_gates();
  void remove_files(const AttemptLayout& layout);
  void discard(const std::string& path);
  void forget_jobs();
  void sweep_soon();
  void sweep();

  LocalAttempt& attempt(const AttemptKey& key);
  LocalAttempt* find(const JobId& job, AttemptId attempt);
  AttemptStop::Find finder(const LocalAttempt& attempt) const;
  void restore_attempts();
  Status keep_keeper();
  void replace_keeper();  // one that was killed, while there is something to keep
  void watch_children();
  bool reap();
  void look_for_dead();
  void schedule_look();
  void schedule_tick();
  void step_attempts();
  bool runs_ranks() const;
  std::optional<std::string> what_forbids(const RunRemedy& request) const;
  bool is_being_mended() const;
  void move_output();
  void tell_clean_if_owed(LocalAttempt& attempt);
  void tell_clean(LocalAttempt& attempt);
  void watch_checkpoints(LocalAttempt& attempt);
  void watch_saving(LocalAttempt& attempt);
  void leave(const char* why);
  void grant_lease();
  void end_with_lease();  // once it is over
  // agent_shutdown.cpp
  void host_shuts_down();
  void go_on_ending();
  void look_for_notice();

  boost::asio::io_context& io_;
  const RunDirectory& run_;
  AgentHost host_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer tick_timer_;
  boost::asio::steady_timer look_timer_;
  ControllerLine line_;
  OomWatch oom_;
  AgentSite site_;
  Welcome welcome_;
  ChildTasks tasks_;
  AttemptStaging staging_;
  ExecSessions execs_;
  EndingSessions measured_before_;  // by looks and gates: what they ended or left
  HealthLooks looks_;
  GateMeasure gate_;
  std::set<std::string> measures_due_;  // asked for by a person, until that has ended
  std::multiset<AttemptKey> checks_;                       // under way, each time one was asked for
  std::vector<std::function<void()>> after_measurements_;  // which were ended for it
  OutputCollection collection_;
  std::map<AttemptKey, std::unique_ptr<LocalAttempt>> attempts_;
  std::map<AttemptKey, CheckpointWatch> checkpoints_;
  std::map<AttemptKey, CheckpointGrowth> growths_;
  std::set<AttemptKey> forget_when_clean_;
  std::map<JobId, bool> forget_when_over_;  // once no attempt of it is held; true: outputs too
  std::set<std::shared_ptr<PeerConnection>> strangers_;
  struct RemoteAsk {
    std::shared_ptr<PeerConnection> asker;
    RemoteStartAsked asked;
  };
  std::map<std::string, RemoteAsk> remote_asks_;  // by ticket, until the daemon has ended
  std::uint64_t next_ticket_ = 1;
  std::uint64_t next_trash_ = 1;
  std::vector<std::string> trash_;  // what attempts left, to be removed
  BootTime sweep_at_{0};
  RawTime nobody_dead_at_;  // every child that has ended since is still to be reaped
  std::chrono::milliseconds look_interval_;
  bool is_looking_ = false;
  AgentLease lease_;
  bool is_accepting_ = false;
  bool leaving_ = false;
  NodeCleaning cleaning_;
  NoticeWatch notices_;
  HealthWatch health_;
  RemedyRuns remedies_;
  int remedies_due_ = 0;  // asked for, and waiting for what measures
  struct Ending {
    BootTime stops_at;   // ranks that nobody has told to stop by then are told by the agent
    BootTime leaves_at;
  };
  std::optional<Ending> ending_;  // since the host told its processes to end
};

}  // namespace muster
