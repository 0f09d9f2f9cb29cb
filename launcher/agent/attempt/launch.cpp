// Attempt's part that starts processes: ranks, mpirun, and what mpirun wants started here.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "launcher/agent/attempt/attempt.h"
#include "launcher/agent/attempt/mpi_launch.h"
#include "launcher/agent/attempt/remote_door.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/node/log.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/mpi_daemon.h"
#include "runtime/protocol/environment.h"
#include "runtime/protocol/membership.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

Result<Fd> open_for_writing(const std::string& path, int how) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | how, 0600));
  if (!file) return system_error("open " + path);
  return file;
}

void add_missing(Environment& environment, const Environment& more) {
  for (const auto& item : more) environment.insert(item);
}

}  // namespace

RankSetting LocalAttempt::setting() const {
  return {*start_,          layout_,     paths_, token_of(site_.run, key_), site_.run.socket_path(),
          site_.lease_path, ports_.ports};
}

Result<Environment> LocalAttempt::environment_of(RankId rank) const {
  if (!start_) return Error{"attempt " + std::to_string(key_.attempt.value) + " is not running"};
  for (const RankLaunch& launch : start_->ranks) {
    if (launch.rank != rank) continue;
    return rank_environment(setting(), launch, base());
  }
  return Error{"rank " + std::to_string(rank.value) + " does not run on this node"};
}

void LocalAttempt::start(const StartRanks& request) {
  if (start_ && !is_told_) return;  // its container is coming up
  if (start_) return told_to_start(Done{});
  start_ = request;
  paths_ = data_paths(*start_, layout_, path_exists);
  Status launched = stop_.is_idle() ? launch() : Error{"the attempt was stopped before"};
  if (!launched || !container_) told_to_start(launched);
}

void LocalAttempt::told_to_start(const Status& launched) {
  if (!launched) start_error_ = launched.error().message;
  if (launched && !is_told_) start_services();
  is_told_ = true;
  for (const RemoteStart& asked : std::exchange(awaiting_container_, {})) remote_start(asked);
  site_.line.send(StartDone{key_.job, key_.attempt, start_error_, layout_.job, fails_everywhere_});
  read_exit_log();
}

Status LocalAttempt::launch() {
  if (Status made = prepare_code(layout_); !made) return made;
  if (Status made = prepare_attempt(*start_, layout_, paths_); !made) return made;
  if (Status saved = save_start(layout_, *start_); !saved) return saved;
  if (Status prepared = prepare_membership(); !prepared) return prepared;
  if (start_->door) {
    if (Status made = prepare_door(layout_, *start_->door, own_program()); !made) return made;
  }
  if (start_->mpi) {
    if (Status made = prepare_mpi_scratch(layout_, own_program()); !made) return made;
  }
  group_ = AttemptGroup::make(token_of(site_.run, key_), layout_.spool);
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);  // by which the kernel dates files
  started_ms_ = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  output_.patterns().set(start_->metrics_regex);
  for (const RankLaunch& rank : start_->ranks) {
    ranks_[rank.rank];
    progress_.add(rank.rank, heartbeat_path(layout_, rank.rank), metrics_path(layout_, rank.rank));
    if (auto spool = output_.open(rank.rank); !spool) return spool.error();
  }
  if (start_->mpi && start_->node_index == 0) {
    if (auto spool = output_.open(mpirun_rank); !spool) return spool.error();
  }
  std::vector<int> pipes;
  output_.list_pipes(pipes);
  site_.keeper.hold(pipes);
  return start_->image.empty() ? launch_ranks() : begin_container();
}

Status LocalAttempt::launch_ranks() {
  if (start_->mpi) return launch_mpi();
  for (const RankLaunch& rank : start_->ranks) {
    if (Status launched = launch_rank(rank); !launched) return launched;
  }
  watch_meeting();
  return Done{};
}

// Each under a process of muster (exec/service.cpp). What becomes of it changes nothing here.
void LocalAttempt::start_services() {
  const std::string directory = services_directory(layout_);
  SpawnRequest request;
  request.environment = attempt_environment(setting(), base());
  if (!start_->ranks.empty()) request.environment = *environment_of(start_->ranks.front().rank);
  for (const auto& [name, service] : start_->services) {
    const auto made = open_private_directory(directory);
    request.argv = {own_program(), "agent", "service", layout_.spool, name};
    const auto log = open_for_writing(directory + "/" + name + ".log", O_CREAT | O_APPEND);
    const auto pid = !made ? made.error() : !log ? log.error() : begin(request, *log);
    if (!pid) log_line("service " + name + " of " + key_.job.value + ": " + pid.error().message);
  }
}

// On the node of MASTER_ADDR, where ranks are told to meet as PyTorch does.
void LocalAttempt::watch_meeting() {
  const Environment& told = start_->environment;
  const auto port = told.find(env_master_port);
  const auto world = told.find(env_world_size);
  const bool is_told = port != told.end() && world != told.end() && world->second != "1";
  const bool is_pytorch = told.contains("TORCHELASTIC_RUN_ID") && !start_->elastic;
  if (!is_told || !is_pytorch || start_->node_index != 0) return;
  meeting_.begin(static_cast<int>(read_integer(port->second).value_or(0)));
}

Status LocalAttempt::prepare_membership() {
  if (!start_->elastic) return Done{};
  if (ports_.ports.size() < start_->ranks.size()) {
    return Error{"this node holds " + std::to_string(ports_.ports.size()) + " ports for " +
                 std::to_string(start_->ranks.size()) + " ranks of an elastic job"};
  }
  if (start_->members.empty()) return Done{};
  const auto first = parse_membership(start_->members);
  if (!first) return Error{"the first membership of the attempt is malformed"};
  const auto epoch = static_cast<std::int64_t>(first->epoch);
  const std::string error = set_members({key_.job, key_.attempt, epoch, start_->members});
  if (error.empty()) return Done{};
  return Error{error};
}

std::string LocalAttempt::set_members(const SetMembers& request) {
  if (!start_ || !start_->elastic) return "no elastic attempt was started on this node";
  if (request.members_epoch <= members_epoch_) return {};
  if (is_clean()) return "the attempt is over on this node";
  const auto members = parse_membership(request.content);
  if (!members || static_cast<std::int64_t>(members->epoch) != request.members_epoch) {
    return "the membership of epoch " + std::to_string(request.members_epoch) + " is malformed";
  }
  const std::string path = members_path(layout_);
  if (!replace_file(path, request.content, 0600, Durable::in_cache)) {
    return system_error("write " + path).message;
  }
  members_epoch_ = request.members_epoch;
  return {};
}

Result<std::vector<std::string>> shell_words(const std::string& command,
                                             const Environment& environment) {
  for (const std::string shell : {"bash", "/bin/bash", "sh", "/bin/sh"}) {
    if (auto path = find_program(shell, environment.at("PATH"))) {
      return std::vector<std::string>{*path, "-c", command};
    }
  }
  return Error{"neither bash nor sh was found on this node: install bash"};
}

Result<LocalAttempt::Words> LocalAttempt::words_of_command(const std::string& command,
                                                           const Environment& environment) const {
  if (has_image()) return Words{"bash", "-c", command};
  return shell_words(command, environment);
}

Status LocalAttempt::check_lengths(const std::vector<std::string>& argv,
                                   const Environment& environment) {
  const std::string why = lasting_hindrance(argv, environment);
  if (why.empty()) return Done{};
  fails_everywhere_ = true;
  return Error{why};
}

// In the attempt's directory and group.
Result<pid_t> LocalAttempt::begin(SpawnRequest request, const Fd& output) {
  request.directory = layout_.code;
  if (group_) request.group = group_->path();
  request.output = request.errors = output.get();
  if (has_image() && !container_) return Error{"the container is not there"};
  auto pid = container_ ? container_->start(request) : site_.processes.start(request);
  const auto is_missing = [&] {
    return !pid && container_ && mentions(pid.error().message, std::strerror(ENOENT));
  };
  if (is_missing() && request.argv.front() == "bash") {  // an image has sh, if anything
    request.argv.front() = "sh";
    pid = container_->start(request);
  }
  if (is_missing()) fails_everywhere_ = true;
  if (pid) {
    sessions_.insert(*pid);
    note_session(layout_.spool, site_.boot_id, *pid);
  }
  return pid;
}

Environment LocalAttempt::mpi_base_environment() const {
  return mpi_environment(layout_, own_program(), attempt_environment(setting(), base()));
}

Status LocalAttempt::launch_rank(const RankLaunch& rank) {
  SpawnRequest request;
  request.environment = rank_environment(setting(), rank, base());
  const std::string command = rank_command(*start_, paths_);
  auto argv = words_of_command(command, request.environment);
  if (!argv) return argv.error();
  if (Status fits = check_lengths(*argv, request.environment); !fits) return fits.error();
  request.argv = in_ray(std::move(*argv), setting());
  const auto output = open_for_writing(output_.find(rank.rank)->pipe()->path(), 0);
  if (!output) return output.error();
  const auto pid = begin(std::move(request), *output);
  if (!pid) return Error{"rank " + std::to_string(rank.rank.value) + ": " + pid.error().message};
  rank_started(rank.rank, *pid);
  append_exit_log(exit_log_path(layout_.spool), RankStart{rank.rank, *pid});
  return Done{};
}

Status LocalAttempt::write_mpi_rank(const RankLaunch& rank) {
  MpiRankFile file;
  file.directory = layout_.code;
  file.output_path = output_.find(rank.rank)->pipe()->path();
  file.exit_log_path = exit_log_path(layout_.spool);
  file.environment = rank_environment(setting(), rank, base());
  auto argv = words_of_command(rank_command(*start_, paths_), file.environment);
  if (!argv) return argv.error();
  if (Status fits = check_lengths(*argv, file.environment); !fits) return fits.error();
  file.argv = std::move(*argv);
  file.in_image = has_image();
  // Without it Open MPI uses its session directory, which is the node's own too; a container has a
  // /dev/shm of its own.
  if (!has_image() && open_private_directory(layout_.mpi_shared_memory)) {
    add_missing(file.environment,
                {{"OMPI_MCA_btl_vader_backing_directory", layout_.mpi_shared_memory},
                 {"OMPI_MCA_btl_sm_backing_directory", layout_.mpi_shared_memory},
                 {"OMPI_MCA_osc_sm_backing_directory", layout_.mpi_shared_memory},
                 {"OMPI_MCA_osc_rdma_backing_directory", layout_.mpi_shared_memory}});
  }
  return write_mpi_rank_file(mpi_rank_file_path(layout_.spool, rank.rank), file);
}

Status LocalAttempt::launch_mpi() {
  for (const RankLaunch& rank : start_->ranks) {
    if (Status written = write_mpi_rank(rank); !written) return written;
  }
  if (start_->node_index != 0) return Done{};
  const auto output = open_for_writing(output_.find(mpirun_rank)->pipe()->path(), 0);
  if (!output) return output.error();
  SpawnRequest request;
  request.argv = mpirun_command(mpi_host_names(start_->mpi->hosts, site_.host_name), *start_->mpi);
  // Only behind an open door do others than Open MPI's get daemons on other nodes.
  if (start_->door) request.argv.insert(request.argv.begin(), {own_program(), "agent", "mpi-run"});
  request.environment = mpi_base_environment();
  for (const auto& [name, value] : mpirun_settings(start_->mpi->one_machine)) {
    request.environment[name] = value;
  }
  const auto pid = begin(std::move(request), *output);
  const std::string cure = has_image() ? "; the image needs an Open MPI" : "; install Open MPI";
  if (!pid) return Error{pid.error().message + cure + " or set mpi.launcher: direct"};
  mpirun_ = *pid;
  return Done{};
}

void LocalAttempt::remote_start(const RemoteStart& asked) {
  if (container_ && !is_told_) return awaiting_container_.push_back(asked);
  const bool is_daemon = start_ && start_->mpi && read_mpi_daemon(asked.command);
  if (start_ && start_->door && !is_daemon) return run_command(asked);
  const auto refuse = [&](const std::string& why) {
    site_.line.send(RemoteStartEnded{asked.ticket, ExitStatus{255, 0}, why});
  };
  if (const auto known = remote_daemons_.find(asked.command); known != remote_daemons_.end()) {
    RemoteDaemon& daemon = known->second;
    daemon.ticket = asked.ticket;
    if (!daemon.ended) return;
    daemon.ended->ticket = asked.ticket;
    return site_.line.send(*daemon.ended);
  }
  if (!start_ || !start_->mpi || !stop_.is_idle()) return refuse("the attempt does not run here");
  if (start_->node_index == 0) return refuse("mpirun itself runs on this node");
  const auto daemon_words = read_mpi_daemon(asked.command);
  if (!daemon_words) return refuse(daemon_words.error().message);
  SpawnRequest request;
  request.argv = daemon_words->argv;
  request.environment = mpi_base_environment();
  for (const auto& [name, value] : daemon_words->settings) request.environment[name] = value;
  for (const auto& [name, directory] : daemon_words->in_front) {
    std::string& searched = request.environment[name];
    searched = directory + (searched.empty() && !container_ ? "" : ":" + searched);
  }
  // Not a spool: only node 0 has the log of mpirun. What the daemon says is read when it fails.
  const auto output = open_for_writing(daemon_log_path(), O_CREAT | O_APPEND);
  if (!output) return refuse(output.error().message);
  const auto pid = begin(std::move(request), *output);
  if (!pid) return refuse(pid.error().message);
  remote_daemons_[asked.command] = {asked.ticket, *pid, {}};
}

}  // namespace muster
