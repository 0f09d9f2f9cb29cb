#include "launcher/agent/attempt/attempt.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "launcher/agent/attempt/mpi_launch.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/keeper/processes.h"
#include "launcher/os/child.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// Enough for a Python traceback of usual depth; the whole text is in the rank's log.
constexpr std::size_t reported_lines = 20;
// mpirun's daemon explains a failed start in about a screen of text.
constexpr std::size_t daemon_words_limit = 16u << 10;

// Also where a shell tells of its child.
bool was_killed(const ExitStatus& status) {
  return status.signal == SIGKILL || status.code == 128 + SIGKILL;
}

}  // namespace

LocalAttempt::LocalAttempt(const AgentSite& site, AttemptKey key)
    : site_(site),
      key_(std::move(key)),
      layout_(layout_of(site.run, key_)),
      output_(site.io, key_, layout_.spool, site.on_output),
      exit_log_(exit_log_path(layout_.spool)),
      stop_(site.processes) {}

LocalAttempt::~LocalAttempt() {
  if (container_) container_->forget();
}

void LocalAttempt::restore() {
  start_ = load_start(layout_);
  group_ = AttemptGroup::noted(layout_.spool);
  in_container_ = ContainerProcesses::noted(layout_.spool, site_.boot_id);
  had_container_ = start_ && !start_->image.empty();
  start_error_ = "an earlier agent of this node ran the attempt and died";
  is_told_ = true;
  output_.open_existing();
  for (const ExitLogLine& line : exit_log_.read_new()) {
    if (const auto* exit = std::get_if<RankExit>(&line)) note_end(*exit);
  }
  stop_.kill_now(site_.clock.steady());
  remove_scratch(layout_);
}

SavePlaces LocalAttempt::save_places() const {
  if (!start_) return {layout_.checkpoints, {}, {}, true};
  return muster::save_places(start_->checkpoint_path, {layout_.checkpoints, layout_.outputs},
                             start_->saves);
}

// The names that TensorBoard and Lightning give before all others; their own are no part of a tag.
MetricPlaces LocalAttempt::metric_places() const {
  MetricPlaces places{save_places().foreign, started_ms_};
  for (const std::string& one : {layout_.outputs, layout_.logs, layout_.code + "/runs",
                                 layout_.code + "/lightning_logs", layout_.code}) {
    places.directories.push_back(one);
  }
  if (start_->resume_from) places.after_step = start_->resume_from->step;
  return places;
}

void LocalAttempt::poll_metrics(ChildTasks& tasks, const std::function<void()>& on_done) {
  if (started_ms_ == 0 || start_->ranks.empty() || !site_.line.has_room()) return;
  if (start_->saves.format == "muster") return;  // muster-train tells all itself
  if (!metrics_) metrics_ = std::make_shared<MetricWatch>(tasks, metric_places());
  const auto now = MetricWatch::Clock::now();
  metrics_->poll(now, is_clean(), on_done);
  const RankId rank = start_->ranks.front().rank;
  for (const MetricLook& news : {metrics_->take(), output_.patterns().take()}) {
    // A step makes a member of a node that joins an elastic job.
    const auto step = start_->elastic ? std::nullopt : news.state.step;
    if (step) progress_.read_off(rank, *step, now, is_clean());
    if (news.lines.empty() && news.notes.empty()) continue;
    const std::string note = joined(news.notes, "; ");
    site_.line.send(Progress{key_.job, key_.attempt, rank, {}, news.lines, {}, true, note});
  }
  if (is_clean() && clean_wanted_) progress_.poll(key_.job, key_.attempt, site_.line);
}

bool LocalAttempt::has_live_ranks() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& item) { return item.second.process && !item.second.exit; });
}

// ---- stopping ---------------------------------------------------------------------------------

// Of a rank, and of a command behind the door, its own process; while that is still a shell, the
// shell's children too: the program that can save something is one of them. Data workers further
// down are left alone.
std::vector<ProcessInfo> LocalAttempt::signal_targets() const {
  std::vector<ProcessInfo> targets;
  for (const auto& [id, rank] : ranks_) {
    if (!rank.process || rank.exit) continue;
    targets.push_back(*rank.process);
    for (ProcessInfo& child : children_of_shell(site_.processes, *rank.process)) {
      targets.push_back(std::move(child));
    }
  }
  for (const auto& [ticket, command] : commands_) {
    const auto process = command.status ? std::nullopt : site_.processes.find(command.pid);
    if (!process) continue;
    targets.push_back(*process);
    for (ProcessInfo& child : children_of_shell(site_.processes, *process)) {
      targets.push_back(std::move(child));
    }
  }
  return targets;
}

void LocalAttempt::stop(const StopAttempt& request) {
  clean_wanted_ = true;
  if (stop_.is_idle()) {
    read_exit_log();  // those who ended before did so by themselves
    asked_to_stop_ = true;
  }
  std::vector<ProcessInfo> targets;
  if (stop_.is_idle() || stop_.is_in_grace()) targets = signal_targets();
  const bool by_themselves = request.signal.empty();
  if (!by_themselves && !signalled_) {
    signalled_ = true;
    const int signal = signal_number(request.signal).value_or(SIGTERM);
    for (const ProcessInfo& target : targets) {
      site_.processes.signal(target, signal);
      site_.processes.signal(target, SIGCONT);
    }
  }
  stop_.begin(std::move(targets), {request.grace, request.grace_max, by_themselves},
              site_.clock.steady());
}

void LocalAttempt::kill_now() {
  asked_to_stop_ = true;
  if (!is_clean()) stop_.kill_now(site_.clock.steady());
}

void LocalAttempt::step(const AttemptStop::Find& find) {
  if (!is_stopping()) return;
  end_holder_alone();
  if (group_ && stop_.is_killing()) group_->kill();
  stop_.step(site_.clock.steady(), find);
  if (!is_clean()) return;
  if (group_) group_->remove();
  read_exit_log();  // whose numbers are the container's
  remove_container();
  ports_ = {};
  remove_scratch(layout_);
}

AttemptClean LocalAttempt::clean_message() const {
  return {key_.job, key_.attempt, {}, stop_.proven()->unkillable};
}

// ---- what became of the ranks -----------------------------------------------------------------

void LocalAttempt::rank_started(RankId rank, pid_t pid) {
  LocalRank& local = ranks_[rank];
  local.process = site_.processes.find(pid).value_or(ProcessInfo{});
  local.process->pid = pid;
  activity_.add(rank, pid, ActivityWatch::Clock::now());
}

bool LocalAttempt::reaped(const DeadChild& child) {
  const pid_t pid = child.pid;
  const ExitStatus status = exit_status_of(child.wait_status);
  if (runtime_process_ == pid) {
    runtime_ended(status.ok());
    return true;
  }
  if (mpirun_ == pid) {
    mpirun_.reset();
    mpi_process_ended(status, true);
    return true;
  }
  if (command_reaped(pid, status)) return true;
  for (auto& [command, daemon] : remote_daemons_) {
    if (daemon.pid != pid || daemon.ended) continue;
    daemon_ended(daemon, status);
    return true;
  }
  for (auto& [id, rank] : ranks_) {
    if (!rank.process || rank.process->pid != pid || rank.exit || (start_ && start_->mpi)) continue;
    RankExit exit{id, status, child.latest, child.earliest, asked_to_stop_};
    exit.boot = site_.boot_id;
    append_exit_log(exit_log_path(layout_.spool), exit);
    rank_ended(exit);
    return true;
  }
  return false;
}

void LocalAttempt::daemon_ended(RemoteDaemon& daemon, ExitStatus status) {
  std::string words;
  if (!status.ok()) {
    std::int64_t from_start = 0;
    for (const auto& line : read_new_lines(daemon_log_path(), from_start, daemon_words_limit)) {
      words += line + "\n";
    }
  }
  daemon.ended = RemoteStartEnded{daemon.ticket, status, words};
  site_.line.send(*daemon.ended);
  mpi_process_ended(status, false);
}

void LocalAttempt::read_exit_log() {
  if (!start_ || !start_->mpi) return;
  for (const ExitLogLine& line : exit_log_.read_new()) {
    if (const auto* start = std::get_if<RankStart>(&line)) {
      const pid_t pid = container_ ? in_container_.outside(start->pid) : start->pid;
      if (pid != 0) rank_started(start->rank, pid);  // else it has ended: its end comes too
    } else {
      rank_ended(std::get<RankExit>(line));
    }
  }
}

RankExit LocalAttempt::ended_by_now(RankId rank, ExitStatus status) const {
  return {rank, status, raw_time(), RawTime{0}, asked_to_stop_, true, site_.boot_id};
}

// mpirun or this node's daemon of it is gone, and with it every rank it had here: those that left
// no record were killed, those that never began ended like it.
void LocalAttempt::mpi_process_ended(ExitStatus status, bool is_mpirun) {
  read_exit_log();
  if (status.ok()) status.code = 1;  // for a rank without a record it was no success
  for (auto& [id, rank] : ranks_) {
    if (rank.exit) continue;
    if (rank.process) {
      rank_ended(ended_by_now(id, ExitStatus{0, SIGKILL}));
    } else if (is_mpirun) {
      rank_ended(ended_by_now(id, status));
    }
  }
}

void LocalAttempt::rank_ended(RankExit exit) {
  LocalRank& rank = ranks_[exit.rank];
  if (rank.exit) return;
  exit.asked_to_stop = exit.asked_to_stop || asked_to_stop_;
  note_end(exit);
  report_ends();
}

// Whatever goes on writing to its pipe, what the rank itself wrote is in it by now.
void LocalAttempt::note_end(RankExit exit) {
  const Spool* spool = output_.find(exit.rank);
  LocalRank& rank = ranks_[exit.rank];
  rank.told_at = spool != nullptr ? spool->end() : 0;
  if (was_killed(exit.status) && rank.process) {
    rank.oom = site_.oom.evidence_of(rank.process->pid);
  }
  activity_.remove(exit.rank);
  const bool failed = !exit.status.ok() && !exit.asked_to_stop;
  if (failed && site_.on_rank_failed) site_.on_rank_failed(key_);
  rank.exit = std::move(exit);
}

void LocalAttempt::report_ends() {
  for (auto& [id, rank] : ranks_) {
    if (!rank.told_at || !output_.move_to(id, *rank.told_at)) continue;
    rank.told_at.reset();
    output_.pump(site_.line);
    report_end(*rank.exit);
  }
}

void LocalAttempt::move_output() {
  read_exit_log();
  if (is_clean()) output_.finish();
  report_ends();
  report_commands();
  output_.pump(site_.line);
}

void LocalAttempt::report_end(const RankExit& exit) {
  RankEnded ended{key_.job, key_.attempt, exit.rank, exit.status, exit.asked_to_stop,
                  0,        {},           {},        {}};
  if (exit.boot == site_.boot_id) {
    ended.age_us = (raw_time() - exit.latest).count();
    ended.span = ExitSpan{exit.earliest.count(), exit.latest.count()};
  }
  Spool* spool = output_.find(exit.rank);
  if (spool != nullptr && !exit.status.ok()) {
    ended.last_lines = spool->last_lines(reported_lines);
    Spool* mpirun = output_.find(mpirun_rank);
    if (mpirun != nullptr) output_.move_to(mpirun_rank, mpirun->end());
    if (ended.last_lines.empty() && mpirun != nullptr) {
      ended.last_lines = mpirun->last_lines(reported_lines);
    }
  }
  progress_.rank_ended(exit.rank);
  poll_progress();  // its last steps are news that comes before its end
  ended.evidence = {ranks_.at(exit.rank).oom,
                    progress_.step_of(exit.rank),
                    exit.with_mpirun,
                    {},
                    meeting_.has_missed()};
  if (exit.status.code != 0) {
    ended.evidence.error = read_error_file(error_path(layout_, exit.rank));
  }
  site_.line.send(ended);
}

void LocalAttempt::report_known() {
  output_.rewind();
  progress_.report_again();
  activity_.report_again();
  for (const auto& [id, rank] : ranks_) {
    if (rank.exit && !rank.told_at) report_end(*rank.exit);
  }
}

void LocalAttempt::poll_progress() {
  if (has_ranks()) progress_.poll(key_.job, key_.attempt, site_.line);
}

// A rank that prints or steps is at work, however little it takes.
void LocalAttempt::poll_activity() {
  if (!is_running()) return;
  const auto now = ActivityWatch::Clock::now();
  meeting_.poll(now);
  for (const auto& [id, rank] : ranks_) {
    const Spool* spool = output_.find(id);
    activity_.produced(id, (spool ? spool->end() : 0) + progress_.step_of(id).value_or(0), now);
  }
  activity_.poll(now);
  if (!site_.line.has_room()) return;
  if (auto news = activity_.news(now)) {
    news->job = key_.job;
    news->attempt = key_.attempt;
    site_.line.send(*news);
  }
}

}  // namespace muster
