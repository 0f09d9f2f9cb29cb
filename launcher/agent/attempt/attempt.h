// One attempt on this node: its rank processes, their output, how they ended, and the proof that
// nothing of it is left. Owned by Agent, on its thread; learns of time and dead children by being
// told. Messages to the controller go through the line and are said again on
// request.
//
//   held -> running -> stopping -> clean        (held: staged or restored, nothing runs)
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/attempt/exit_log.h"
#include "launcher/agent/attempt/output.h"
#include "launcher/agent/attempt/port_reservation.h"
#include "launcher/agent/container/container.h"
#include "launcher/agent/container/runtime.h"
#include "launcher/agent/keeper/keeper.h"
#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/keeper/processes.h"
#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/agent/node/child_tasks.h"
#include "launcher/agent/node/peer.h"
#include "launcher/agent/watch/activity.h"
#include "launcher/agent/watch/checkpoint.h"
#include "launcher/agent/watch/progress.h"

namespace muster {

// What an attempt needs to know of the agent that owns it.
struct AgentSite {
  const RunDirectory& run;
  ControllerLine& line;
  ProcessTable& processes;
  const AgentClock& clock;
  Keeper& keeper;
  std::string lease_path;  // for ranks
  boost::asio::io_context& io;
  std::function<void()> on_output;  // something can be sent
  Environment environment;          // the agent's own
  std::string host_name;
  std::string boot_id;
  OomWatch& oom;
  std::function<void(const AttemptKey&)> on_rank_failed{};  // by itself
  std::function<void(const DeadChild&)> on_dead{};          // one that a container's holder reaped
};

class LocalAttempt {
 public:
  LocalAttempt(const AgentSite& site, AttemptKey key);
  LocalAttempt(const LocalAttempt&) = delete;
  ~LocalAttempt();

  const AttemptKey& key() const { return key_; }
  const AttemptLayout& layout() const { return layout_; }
  const std::optional<StartRanks>& start_request() const { return start_; }
  const std::optional<AttemptGroup>& group() const { return group_; }
  // By their group or container, whatever else they are.
  std::set<pid_t> members() const;
  AttemptOutput& output() { return output_; }

  // What a dead agent left on disk; its processes are gone.
  void restore();
  void start(const StartRanks& request);
  void hold_ports(PortReservation ports) { ports_ = std::move(ports); }
  // Empty: the file says this epoch or a newer one.
  std::string set_members(const SetMembers& request);
  const std::vector<int>& ports() const { return ports_.ports; }

  void stop(const StopAttempt& request);
  void kill_now();
  // Told to have some, and not yet proven to have none.
  bool has_ranks() const { return start_ && !is_clean(); }
  bool is_running() const { return has_live_ranks() && !is_stopping(); }
  bool is_clean() const { return stop_.proven() != nullptr; }
  bool is_stopping() const { return stop_.is_active(); }
  bool is_in_grace() const { return stop_.is_in_grace(); }
  void extend_grace(AttemptStop::Clock::time_point until) { stop_.extend(until); }
  // StopAttempt wants AttemptClean, and everything it has to wait for has happened.
  bool owes_clean() const {
    return clean_wanted_ && is_clean() && output_.has_sent_everything() &&
           (!metrics_ || metrics_->is_done()) && !is_removing_container();
  }
  // A look that is over within seconds, and is told to a controller that listens.
  bool awaits_metrics() const {
    return clean_wanted_ && is_clean() && metrics_ && !metrics_->is_done() && site_.line.has_room();
  }
  void clean_told() { clean_wanted_ = false; }
  // Processes, or output that only their pipes hold.
  bool needs_keeper() const { return start_ && !(is_clean() && output_.is_moved()); }
  AttemptClean clean_message() const;

  // Anything that can bring an attempt forward: time, a dead child.
  void step(const AttemptStop::Find& find);
  bool reaped(const DeadChild& child);
  void read_exit_log();
  void poll_progress();
  void poll_activity();
  // Those of the program's own files and output; `on_done` as in MetricWatch.
  void poll_metrics(ChildTasks& tasks, const std::function<void()>& on_done);
  void move_output();   // as far as it goes: what the ranks wrote, then how they ended
  void report_known();  // after Welcome

  void remote_start(const RemoteStart& request);
  // What a program here may ask of another node through the door, as it goes to the controller;
  // nothing is asked of one whose answer is known here.
  Result<RemoteStartAsked> through_door(RemoteStartAsked asked) const;
  // For a command beside a rank: its environment and directory; an Error when it is not here.
  Result<Environment> environment_of(RankId rank) const;
  // A process beside the ranks: where they are, in a container or on the host.
  Result<pid_t> start_beside(const SpawnRequest& request);
  bool is_removing_container() const;
  bool is_in_container() const { return container_ != nullptr; }
  std::vector<pid_t> processes_of(RankId rank) const { return activity_.processes_of(rank); }
  void add_session(pid_t session) { sessions_.insert(session); }
  const std::set<pid_t>& sessions() const { return sessions_; }
  bool has_live_ranks() const;
  SavePlaces save_places() const;

 private:
  struct LocalRank {
    std::optional<ProcessInfo> process;
    std::optional<RankExit> exit;
    std::optional<std::int64_t> told_at;  // the end is told when so much output has been moved
    std::string oom;                      // the kernel's word on it; empty: none
  };

  // A daemon of mpirun that was started here. Its command tells it from others: the same one asked
  // for again, over another connection of the controller's, is the same daemon.
  struct RemoteDaemon {
    std::string ticket;
    pid_t pid = 0;
    std::optional<RemoteStartEnded> ended;
  };

  // A command behind the door. Its end is told when who asked has all that it wrote until then.
  struct RemoteCommand {
    RankId output;
    pid_t pid = 0;
    std::optional<ExitStatus> status{};
    std::int64_t told_at = 0;
    std::optional<RemoteStartEnded> ended{};
  };

  Status launch();
  Status launch_ranks();
  void told_to_start(const Status& launched);
  Status begin_container();
  void container_ready(pid_t holder);
  void container_gone();
  using Words = std::vector<std::string>;
  Result<pid_t> run_runtime(const Words& words);
  Status find_unpacked(ContainerPlace& place);
  void remove_container();
  void end_holder_alone();
  void begin_removal();
  void runtime_ended(bool is_ok);
  static std::vector<std::pair<std::string, std::string>> program_files();
  const Result<ContainerRuntime>& runtime() const;
  bool has_own_user() const;
  Status add_user(const std::string& directory, ContainerPlace& place) const;
  std::string container_name() const;
  std::string container_log() const;
  std::vector<std::string> mounts() const;
  std::vector<std::string> read_only_mounts(std::vector<std::string>& writable) const;
  Environment base() const;
  bool has_image() const { return start_ && !start_->image.empty(); }
  std::string own_program() const;
  Result<Words> words_of_command(const std::string& command, const Environment& environment) const;
  Status prepare_membership();
  void start_services();
  void watch_meeting();
  MetricPlaces metric_places() const;
  Status launch_rank(const RankLaunch& rank);
  Status launch_mpi();
  Status write_mpi_rank(const RankLaunch& rank);
  Status check_lengths(const std::vector<std::string>& argv, const Environment& environment);
  RankSetting setting() const;
  Result<pid_t> begin(SpawnRequest request, const Fd& output);
  Environment mpi_base_environment() const;
  void rank_started(RankId rank, pid_t pid);
  void rank_ended(RankExit exit);
  RankExit ended_by_now(RankId rank, ExitStatus status) const;  // with mpirun or its daemon
  void mpi_process_ended(ExitStatus status, bool is_mpirun);
  void daemon_ended(RemoteDaemon& daemon, ExitStatus status);
  void run_command(const RemoteStart& asked);
  Result<pid_t> begin_command(const RemoteStart& asked, RankId output);
  bool command_reaped(pid_t pid, ExitStatus status);
  void report_commands();
  void note_end(RankExit exit);
  void report_ends();
  void report_end(const RankExit& exit);
  std::string daemon_log_path() const { return layout_.spool + "/mpi-daemon.log"; }
  std::vector<ProcessInfo> signal_targets() const;

  const AgentSite& site_;
  AttemptKey key_;
  AttemptLayout layout_;
  std::optional<StartRanks> start_;
  DataPaths paths_;
  bool is_told_ = false;  // whether it could be started
  std::string start_error_;
  bool fails_everywhere_ = false;  // start_error_ is the job's own doing
  std::map<RankId, LocalRank> ranks_;
  std::optional<pid_t> mpirun_;
  std::map<std::string, RemoteDaemon> remote_daemons_;  // by command
  std::map<std::string, RemoteCommand> commands_;       // by ticket
  std::vector<RemoteStart> awaiting_container_;         // asked for while it comes up
  std::set<pid_t> sessions_;
  std::optional<AttemptGroup> group_;
  std::shared_ptr<Container> container_;
  ContainerProcesses in_container_;
  mutable std::optional<Result<ContainerRuntime>> runtime_;
  bool had_container_ = false;            // which its runtime may still know
  Environment image_variables_;           // of an unpacked one
  std::optional<pid_t> runtime_process_;  // which runs it, in the end that which removes it
  AttemptStop::Clock::time_point removal_until_;
  int removals_left_ = 0;
  AttemptOutput output_;
  ExitLogReader exit_log_;
  ProgressWatch progress_;
  std::int64_t started_ms_ = 0;  // since 1970; 0: not by this agent
  std::shared_ptr<MetricWatch> metrics_;
  ActivityWatch activity_;
  ListenWatch meeting_;
  PortReservation ports_;
  AttemptStop stop_;
  std::int64_t members_epoch_ = 0;  // that the membership file says; 0: there is none
  bool asked_to_stop_ = false;
  bool signalled_ = false;  // the ranks, upon StopAttempt
  bool clean_wanted_ = false;
};

}  // namespace muster
