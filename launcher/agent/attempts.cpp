#include "launcher/agent/attempts.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "launcher/agent/attempt/mpi_launch.h"
#include "launcher/agent/attempt/remote_door.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/node/log.h"
#include "launcher/agent/watch/activity.h"
#include "launcher/data/stream.h"
#include "launcher/staging/materialize.h"
#include "launcher/wire/message_codec.h"
#include "launcher/wire/mpi_daemon.h"

namespace muster {

namespace {

// Reading checkpoint manifests from a slow shared file system.
constexpr Milliseconds probe_limit{20000};
// A second to see what moves, then debuggers with five seconds each; a process in the kernel's hold
// can hold up who reads its /proc.
constexpr Milliseconds inspect_limit{20000};
// What an attempt leaves is removed when the next one, which often follows at once, is under way;
// and what an earlier agent left, when whatever this one was started for is.
constexpr std::chrono::seconds removal_pause{5};
// A job's directory of a million files on a slow disk.
constexpr Milliseconds removal_limit{30 * 60 * 1000};

// What the programs of node 0 wait for at a time: a command or two on each of 4,096 nodes.
constexpr std::size_t asks_limit = 16384;
// Launchers take the first word of the answer for the address of a host; it may have several, and
// one of them is the job's.
constexpr const char* address_question = "hostname -I";

void add_checkpoints(AttemptClean& clean, CheckpointProbe probe) {
  clean.newest_checkpoint = std::move(probe.newest);
  clean.newest_certified = std::move(probe.newest_certified);
}

}  // namespace

Attempts::Attempts(const AgentSite& site, ChildTasks& tasks, std::string agent_id,
                   Questions questions)
    : site_(site),
      tasks_(tasks),
      questions_(std::move(questions)),
      staging_(site.run, site.line, tasks),
      collection_(site.line),
      agent_id_(std::move(agent_id)),
      remove_trash_at_(site.clock.boot() + removal_pause) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(site.run.path, ignored)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(trash_prefix)) trash_.push_back(entry.path().string());
  }
}

// ---- which there are --------------------------------------------------------------------------

void Attempts::restore() {
  for (const AttemptKey& key : attempts_below(spools_root(site_.run))) {
    LocalAttempt& restored = hold(key).attempt;
    restored.restore();
    restored.step(finder(restored));
    log_line("holds the output of " + key.job.value + " attempt " +
             std::to_string(key.attempt.value) + " of an earlier agent");
  }
  std::error_code ignored;
  if (!std::filesystem::exists(site_.run.path + "/streams", ignored)) return;
  tasks_.run(
      [root = site_.run.path](const ChildTasks::Tell&) {
        remove_left_streams(root);
        return std::string();
      },
      probe_limit, [](const Result<std::string>&) {});
}

Attempts::Held& Attempts::hold(const AttemptKey& key) {
  return held_.try_emplace(key, site_, key).first->second;
}

LocalAttempt* Attempts::find(const AttemptKey& key) {
  const auto found = held_.find(key);
  return found == held_.end() ? nullptr : &found->second.attempt;
}

std::vector<HeldAttempt> Attempts::list() const {
  std::vector<HeldAttempt> list;
  for (const auto& [key, held] : held_) list.push_back({key.job, key.attempt});
  return list;
}

bool Attempts::is_any(bool (LocalAttempt::*holds)() const) const {
  return std::ranges::any_of(held_,
                             [&](const auto& item) { return (item.second.attempt.*holds)(); });
}

Status Attempts::ensure_keeper() {
  std::vector<int> pipes;
  for (auto& [key, held] : held_) held.attempt.output().list_pipes(pipes);
  return site_.keeper.ensure(pipes);
}

void Attempts::replace_keeper() {
  if (!need_keeper()) return;
  if (Status ensured = ensure_keeper(); !ensured) log_line(ensured.error().message);
}

void Attempts::reaped(const DeadChild& child) {
  for (auto& [key, held] : held_) {
    if (held.attempt.reaped(child)) return;
  }
}

AttemptStop::Find Attempts::finder(const LocalAttempt& attempt) const {
  return [this, &attempt] {
    ProcessMarks marks;
    marks.agent = ::getpid();
    marks.members = attempt.members();
    const std::string token = token_of(site_.run, attempt.key());
    marks.is_token = [&token](const std::string& other) { return other == token; };
    marks.socket_path = site_.run.socket_path();
    marks.spool_prefix = attempt.layout().spool + "/";
    marks.sessions = attempt.sessions();
    marks.other_sessions = questions_.other_sessions();
    marks.other_sessions.insert(::getsid(0));
    if (site_.keeper.pid()) marks.other_sessions.insert(*site_.keeper.pid());
    for (const auto& [key, other] : held_) {
      if (&other.attempt == &attempt) continue;
      const auto& sessions = other.attempt.sessions();
      marks.other_sessions.insert(sessions.begin(), sessions.end());
      if (other.attempt.has_ranks()) marks.takes_orphans = false;
    }
    return find_attempt_processes(site_.processes, marks);
  };
}

// ---- what is asked ----------------------------------------------------------------------------

void Attempts::handle(const StageTrees& request, std::string_view) {
  LocalAttempt* known = find(key_of(request));
  if (known != nullptr && known->start_request()) {
    return site_.line.send(staging_.done_again(key_of(request)));
  }
  forgotten_jobs_.erase(request.job);  // it was resumed
  staging_.stage(request);
}

void Attempts::handle(const BlobData& piece, std::string_view payload) {
  staging_.receive(piece, payload);
}

void Attempts::handle(const ReservePorts& request, std::string_view) {
  PortsDone done{request.job, request.attempt, {}, {}};
  LocalAttempt& holder = hold(key_of(request)).attempt;
  if (static_cast<int>(holder.ports().size()) != request.count) {
    // Neighbouring agents begin their search at different places.
    const auto first = static_cast<unsigned>(
        std::hash<std::string>{}(token_of(site_.run, holder.key()) + site_.run.path));
    auto ports = reserve_ports(request.count, request.port_min, request.port_max, first,
                               {site_.run.home + "/ports"});
    if (ports) {
      if (!ports->remark.empty()) log_line(ports->remark);
      holder.hold_ports(std::move(*ports));
    } else {
      done.error = ports.error().message;
    }
  }
  if (done.error.empty()) done.ports = holder.ports();
  site_.line.send(done);
}

void Attempts::start(const StartRanks& request) {
  forgotten_jobs_.erase(request.job);
  hold(key_of(request)).attempt.start(request);
}

void Attempts::handle(const SetMembers& request, std::string_view) {
  LocalAttempt* known = find(key_of(request));
  std::string error = "the attempt does not run on node " + site_.run.node.value;
  if (known != nullptr) error = known->set_members(request);
  site_.line.send(MembersSet{request.job, request.attempt, request.members_epoch, error});
}

void Attempts::stop(const StopAttempt& request) {
  const AttemptKey key = key_of(request);
  staging_.cancel(key);
  hold(key).attempt.stop(request);
}

void Attempts::stop_all(Milliseconds grace) {
  for (auto& [key, held] : held_) {
    if (held.attempt.is_stopping() || held.attempt.is_clean()) continue;
    held.attempt.stop(StopAttempt{key.job, key.attempt, "SIGTERM", grace, grace});
  }
}

void Attempts::kill_all() {
  for (auto& [key, held] : held_) held.attempt.kill_now();
}

void Attempts::handle(const CollectOutputs& request, std::string_view) {
  collection_.begin(key_of(request), layout_of(site_.run, key_of(request)));
}

void Attempts::handle(const LookAtRanks& request, std::string_view) {
  const LocalAttempt* known = find(key_of(request));
  if (known == nullptr || known->is_stopping()) return;
  std::vector<RankProcesses> ranks;
  for (const RankId rank : request.ranks) {
    ranks.push_back({rank, known->processes_of(rank), request.suspect == rank});
  }
  RanksLookedAt seen{request.job, request.attempt, {}};
  tasks_.run(
      [seen, ranks, root = site_.run.path,
       path = base_environment(site_.environment).at("PATH")](const ChildTasks::Tell&) mutable {
        seen.storage = trouble_of_streams(root, seen.job, seen.attempt);
        seen.ranks = inspect_ranks(ranks, path);
        return encode(FromAgent{seen});
      },
      inspect_limit,
      [this, seen, ranks](Result<std::string> frame) mutable {
        if (frame) return site_.line.send_encoded(std::move(*frame));
        seen.storage = trouble_of_streams(site_.run.path, seen.job, seen.attempt);
        for (const RankProcesses& one : ranks) {
          seen.ranks.push_back(
              {one.rank, {"reading more of the node failed: " + frame.error().message}});
        }
        site_.line.send(seen);
      });
}

void Attempts::acknowledge(const AttemptKey& key, RankId rank, std::int64_t offset) {
  const auto found = held_.find(key);
  if (found == held_.end()) return;
  LocalAttempt& attempt = found->second.attempt;
  attempt.output().acknowledge(rank, offset);
  attempt.move_output();
  report_clean_if_owed(found->second);
}

void Attempts::handle(const OutputAck& ack, std::string_view) {
  acknowledge(key_of(ack), ack.rank, ack.offset);
}

void Attempts::handle(const RemoteOutputAck& ack, std::string_view) {
  if (ack.number > 0) acknowledge(key_of(ack), output_of_command(ack.number), ack.offset);
}

void Attempts::handle(const RemoteStart& request, std::string_view) {
  LocalAttempt* known = find(key_of(request));
  if (known != nullptr) return known->remote_start(request);
  site_.line.send(RemoteStartEnded{request.ticket, ExitStatus{255, 0},
                                   "the attempt does not run on node " + site_.run.node.value});
}

// mpirun's daemon on another node or, through an open door, any command on any node.
Result<RemoteStartAsked> Attempts::admit(RemoteStartAsked asked) {
  const LocalAttempt* attempt = find(key_of(asked));
  const auto& start = attempt == nullptr ? std::nullopt : attempt->start_request();
  if (start && start->door && start->node_index != 0) {
    return Error{"only node 0 of a job may start commands on other nodes"};
  }
  if (!start || !(start->mpi || start->door) || start->node_index != 0) {
    return Error{"this node runs no such mpirun"};
  }
  if (start->mpi) {
    const auto& hosts = start->mpi->hosts;
    const auto names = mpi_host_names(hosts, site_.host_name);
    const auto named = std::ranges::find(names, asked.host);
    if (named != names.end()) asked.host = hosts[static_cast<std::size_t>(named - names.begin())];
  }
  const auto daemon = start->mpi ? read_mpi_daemon(asked.command) : Error{"no mpirun"};
  if (!daemon && start->door) return attempt->through_door(std::move(asked));
  if (!daemon) return daemon.error();
  return asked;
}

void Attempts::ask(const std::shared_ptr<PeerConnection>& asker, RemoteStartAsked given) {
  const auto answer = [&](int code, const std::string& why) {
    asker->write(encode(ToAgent{RemoteStartEnded{given.ticket, ExitStatus{code, 0}, why}}));
    asker->close_when_written();
  };
  auto asked = asks_.size() < asks_limit ? admit(given) : Error{"too many commands are awaited"};
  if (!asked) return answer(255, asked.error().message);
  if (asked->command == address_question) {
    const auto& door = find(key_of(*asked))->start_request()->door;
    const std::string address = door->addresses.at(*place_in(*door, asked->host)) + "\n";
    asker->write(encode(ToAgent{RemoteOutput{}}, address));
    return answer(0, {});
  }
  const std::string ticket = asked->ticket = std::to_string(next_ticket_++);
  asker->set_handlers({[](Frame) {}, [this, ticket] { acknowledge_output(ticket); },
                       [this, ticket] { asks_.erase(ticket); }});
  site_.line.send(*asked);  // without a line: with the next Welcome
  asks_[ticket] = {asker, std::move(*asked)};
}

// What comes again, after a connection was lost, is passed on once.
void Attempts::handle(const RemoteOutput& piece, std::string_view payload) {
  const std::string ticket = std::to_string(piece.number);
  const std::int64_t end = piece.offset + static_cast<std::int64_t>(payload.size());
  const auto found = asks_.find(ticket);
  if (found == asks_.end()) {  // who asked has gone: nobody waits for it
    site_.line.send(RemoteOutputAck{piece.job, piece.attempt, piece.number, end, piece.node});
    return;
  }
  Ask& ask = found->second;
  ask.node = piece.node;
  if (piece.offset > ask.received) return;
  if (end <= ask.received) return acknowledge_output(ticket);
  payload.remove_prefix(static_cast<std::size_t>(ask.received - piece.offset));
  ask.received = end;
  ask.asker->write(encode(ToAgent{piece}, payload));
}

// Once the asker has taken all: one that is slow holds up its command and nobody else.
void Attempts::acknowledge_output(const std::string& ticket) {
  const auto found = asks_.find(ticket);
  if (found == asks_.end() || found->second.asker->queued_bytes() > 0) return;
  const Ask& ask = found->second;
  site_.line.send(RemoteOutputAck{ask.asked.job, ask.asked.attempt, std::atoll(ticket.c_str()),
                                  ask.received, ask.node});
}

void Attempts::handle(const RemoteStartEnded& ended, std::string_view) {
  const auto ask = asks_.find(ended.ticket);
  if (ask == asks_.end()) return;
  const auto asker = ask->second.asker;
  asks_.erase(ask);
  asker->set_handlers({});
  asker->write(encode(ToAgent{ended}));
  asker->close_when_written();
}

void Attempts::line_lost() {
  staging_.line_lost();
  collection_.cancel_all();
}

void Attempts::report_known() {
  for (auto& [key, held] : held_) held.attempt.report_known();
  // The other node knows a daemon that it has started already.
  for (const auto& [ticket, ask] : asks_) site_.line.send(ask.asked);
}

// ---- what happens by itself -------------------------------------------------------------------

void Attempts::poll() {
  staging_.poll(site_.clock.boot());
  remove_discarded();
  for (auto& [key, held] : held_) {
    held.attempt.output().move();
    held.attempt.move_output();
    held.attempt.poll_progress();
    held.attempt.poll_activity();
    watch_checkpoints(held);
    watch_saving(held);
    held.attempt.poll_metrics(tasks_, [this] { move_output(); });
  }
}

void Attempts::step() {
  for (auto& [key, held] : held_) {
    held.attempt.read_exit_log();
    held.attempt.step(finder(held.attempt));
  }
}

void Attempts::move_output() {
  for (auto& [key, held] : held_) {
    held.attempt.move_output();
    if (held.attempt.is_clean()) held.attempt.poll_metrics(tasks_, [this] { move_output(); });
    report_clean_if_owed(held);
  }
  collection_.pump();
}

void Attempts::report_clean_if_owed(Held& held) {
  const AttemptKey& key = held.attempt.key();
  const bool is_awaited = staging_.is_busy(key) || questions_.is_deciding(key);
  if (held.attempt.owes_clean() && !is_awaited && site_.line.is_open()) report_clean(held);
}

void Attempts::report_clean(Held& held) {
  LocalAttempt& attempt = held.attempt;
  attempt.clean_told();
  AttemptClean clean = attempt.clean_message();
  const SavePlaces places = attempt.save_places();
  if (auto probe = probe_near_checkpoints(places)) {
    add_checkpoints(clean, std::move(*probe));
    return site_.line.send(clean);
  }
  // Told when the directory cannot be looked at.
  if (held.checkpoints) clean.newest_checkpoint = held.checkpoints->newest();
  tasks_.run(
      [clean, places](const ChildTasks::Tell&) mutable {
        add_checkpoints(clean, probe_checkpoints(places));
        return encode(FromAgent{clean});
      },
      probe_limit,
      [this, clean, asked_on = site_.line.generation()](Result<std::string> frame) {
        // A later connection has not got all the output yet; its controller asks again.
        if (site_.line.generation() != asked_on) return;
        site_.line.send_encoded(frame ? std::move(*frame) : encode(FromAgent{clean}));
      });
}

void Attempts::watch_checkpoints(Held& held) {
  const LocalAttempt& attempt = held.attempt;
  if (!attempt.has_ranks() || !attempt.has_live_ranks()) return;
  if (!held.checkpoints) {
    const AttemptKey& key = attempt.key();
    const auto& ranks = attempt.start_request()->ranks;
    const auto tell = [this, key, rank = ranks.empty() ? RankId{} : ranks.front().rank](
                          const CheckpointRef& newest) {
      site_.line.send(Progress{key.job, key.attempt, rank, {}, {}, newest});
    };
    held.checkpoints.emplace(tasks_, attempt.save_places(), tell);
  }
  held.checkpoints->poll(CheckpointWatch::Clock::now());
}

void Attempts::watch_saving(const AttemptKey& key) {
  const auto found = held_.find(key);
  if (found != held_.end()) watch_saving(found->second);
}

// Ranks that were told to stop are given longer while they save.
void Attempts::watch_saving(Held& held) {
  if (!held.attempt.is_in_grace()) return;
  if (!held.growth) held.growth.emplace(tasks_, held.attempt.save_places());
  held.growth->poll(CheckpointGrowth::Clock::now());
  if (const auto until = held.growth->saving_until()) held.attempt.extend_grace(*until);
}

// ---- the end of it ----------------------------------------------------------------------------

void Attempts::forget(const ForgetAttempt& request) {
  const AttemptKey key = key_of(request);
  staging_.cancel(key);
  if (LocalAttempt* known = find(key)) known->kill_now();
  forgotten_.insert(key);
}

bool Attempts::can_forget(const AttemptKey& key) const {
  const auto found = held_.find(key);
  const bool is_over = found == held_.end() || (found->second.attempt.is_clean() &&
                                                !found->second.attempt.is_removing_container());
  return is_over && !staging_.is_busy(key);
}

void Attempts::remove_forgotten() {
  std::erase_if(forgotten_, [this](const AttemptKey& key) {
    if (!can_forget(key)) return false;
    const AttemptLayout layout = layout_of(site_.run, key);
    discard(layout.spool);
    std::error_code not_empty;  // other attempts of the job are there
    std::filesystem::remove(std::filesystem::path(layout.spool).parent_path(), not_empty);
    discard(layout.code);
    staging_.forget(key);
    held_.erase(key);
    return true;
  });
  forget_jobs();
}

void Attempts::handle(const ForgetJob& request, std::string_view) {
  bool& outputs_too = forgotten_jobs_[request.job];
  outputs_too = outputs_too || request.outputs_too;
  forget_jobs();
}

// Its attempts are forgotten one by one, each when nothing of it is left.
void Attempts::forget_jobs() {
  std::erase_if(forgotten_jobs_, [this](const auto& item) {
    const auto& [job, outputs_too] = item;
    const bool is_held =
        std::ranges::any_of(held_, [&job](const auto& held) { return held.first.job == job; });
    if (is_held || staging_.knows(job)) return false;
    const AttemptLayout layout = layout_of(site_.run, {job, AttemptId{0}});
    for (const std::string& part : disposable_parts(layout.job, outputs_too)) discard(part);
    remove_if_empty(layout);
    return true;
  });
}

// Renamed, so that its name is free.
void Attempts::discard(const std::string& path) {
  if (!path_exists(path)) return;
  std::string name =
      site_.run.path + "/" + trash_prefix + agent_id_ + "." + std::to_string(next_trash_name_++);
  std::error_code failed;
  std::filesystem::rename(path, name, failed);
  trash_.push_back(failed ? path : std::move(name));
  remove_trash_at_ = site_.clock.boot() + removal_pause;
}

void Attempts::remove_discarded() {
  if (trash_.empty() || site_.clock.boot() < remove_trash_at_) return;
  ::malloc_trim(0);  // what many attempts held goes back to the node
  tasks_.run(
      [paths = std::exchange(trash_, {})](const ChildTasks::Tell&) {
        for (const std::string& path : paths) static_cast<void>(remove_tree(path));
        return std::string();
      },
      removal_limit, [](const Result<std::string>&) {});
}

}  // namespace muster
