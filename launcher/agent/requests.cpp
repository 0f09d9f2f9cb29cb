// Agent's part that answers the controller, one function per message.
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/keeper/job_folders.h"
#include "launcher/agent/node/log.h"
#include "launcher/agent/node_check.h"
#include "launcher/agent/watch/rank_inspect.h"
#include "launcher/staging/materialize.h"
#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

// The gate is passive and quick; what takes longer hangs, and that is the finding.
constexpr Milliseconds check_limit{10000};
// A second to see what moves, then debuggers with five seconds each; a process in the kernel's hold
// can hold up who reads its /proc.
constexpr Milliseconds look_limit{20000};
// What an attempt leaves is removed when the next one, which often follows at once, is under way;
// and what an earlier agent left, when whatever this one was started for is.
constexpr std::chrono::seconds sweep_pause{5};
// A job's directory of a million files on a slow disk.
constexpr Milliseconds removal_limit{30 * 60 * 1000};

}  // namespace

void Agent::on(const Ping& ping, std::string_view) {
  if (ping.heard_ms) {
    lease_.heard(std::chrono::milliseconds(*ping.heard_ms), host_.clock.boot());
    grant_lease();
  }
  line_.send(Pong{boot_ms(), clock_stamps(ping.sent_us)});
}

void Agent::on(const CheckNode& request, std::string_view) {
  const AttemptKey key{request.job, request.attempt};
  if (gate_.is_asked(key)) return;  // over a new connection: it is answered when it is measured
  health_.begin_job(request.health);
  end_measures_of_others(request.job);
  checks_.insert(key);
  const std::int64_t asked_ms = boot_ms();
  when_none_measures([this, request, asked_ms] {
    if (remedies_.is_running()) {
      return check(request, asked_ms, {{"health", "what reset or rebooted it is not gone yet"}});
    }
    if (!request.with_health) return check(request, asked_ms, {});
    health_.ask(request.skip, [this, request, asked_ms](std::vector<CheckFailure> failures) {
      check(request, asked_ms, std::move(failures));
    });
  });
}

// Checks do not meet what was measured with and killed.
void Agent::when_none_measures(std::function<void()> then) {
  after_measurements_.push_back(std::move(then));
  go_on_after_measurements();
  if (!after_measurements_.empty()) schedule_tick();
}

void Agent::go_on_after_measurements() {
  if (after_measurements_.empty()) return;
  if (!measured_before_.are_gone()) return;
  looks_.poll();  // gives its claim back
  gate_.give_back();
  for (const auto& then : std::exchange(after_measurements_, {})) then();
}

// One job has a node at a time: attempts of others are over, and nobody waits for their gates.
void Agent::end_measures_of_others(const JobId& job) {
  health_.note_measuring();
  std::erase_if(checks_, [&](const AttemptKey& key) { return key.job != job; });
  gate_.job_comes(job);
  looks_.job_comes();
  for (const std::string& id : std::exchange(measures_due_, {})) {
    execs_.refuse(id, "job " + job.value + " began there");
  }
}

// True: its attempt still stands.
bool Agent::end_check(const AttemptKey& attempt) {
  const auto found = checks_.find(attempt);
  if (found == checks_.end()) return false;
  checks_.erase(found);
  return true;
}

void Agent::on(const WatchHealth& request, std::string_view) {
  health_.follow(request.health);
  if (const auto faults = health_.state()) line_.send(*faults);
}

void Agent::on(const FaultsMended& request, std::string_view) {
  health_.mended(request.ids);
  gate_.mended();
}

void Agent::on(const LookAtHealth& request, std::string_view) {
  if (is_being_mended()) return execs_.refuse(request.id, "it is being reset or rebooted");
  looks_.start(request, runs_ranks(), site_.environment);
}

// Of a node that no job has: whoever waited for its gate has given the node back.
void Agent::end_gates() {
  checks_.clear();
  gate_.end();
}

void Agent::on(const MeasureNode& request, std::string_view) {
  end_gates();
  measures_due_.insert(request.id);
  when_none_measures([this, request] {
    if (measures_due_.erase(request.id) == 0) return;
    if (is_being_mended()) return execs_.refuse(request.id, "it is being reset or rebooted");
    looks_.measure(request, runs_ranks(), site_.environment);
    health_.note_measuring();
  });
}

// Whoever asks believes the node to be idle, by what agents said before.
void Agent::on(const RunRemedy& request, std::string_view) {
  if (!remedies_.is_news(request)) return remedies_.ask(request, std::nullopt, {});
  if (!what_forbids(request)) {  // what measures would measure the reset, and be in its way
    looks_.end_wide();
    end_gates();
  }
  ++remedies_due_;
  when_none_measures([this, request] {
    --remedies_due_;
    Environment environment = site_.environment;
    environment[token_name] = "remedy";
    const auto refusal = what_forbids(request);
    if (!refusal) health_.let_go();
    remedies_.ask(request, refusal, environment);
    schedule_tick();
  });
}

bool Agent::is_being_mended() const {
  return remedies_due_ > 0 || remedies_.is_running();
}

// A reset that hangs in the driver is what a reboot is for.
std::optional<std::string> Agent::what_forbids(const RunRemedy& request) const {
  if (leaving_ || ending_) return "the agent of node " + run_.node.value + " is leaving";
  if (runs_ranks()) return "ranks run on node " + run_.node.value;
  const bool is_reset = request.step == RemedyStep::reset;
  if (remedies_.is_under_way() || (is_reset && remedies_.is_running())) {
    return "an earlier command that resets or reboots node " + run_.node.value + " goes on";
  }
  return std::nullopt;
}

void Agent::check(CheckNode request, std::int64_t asked_ms, std::vector<CheckFailure> failures) {
  // The controller's clock went on meanwhile.
  if (request.now_ms != 0) request.now_ms += boot_ms() - asked_ms;
  const AttemptLayout layout = layout_of(run_, {request.job, request.attempt});
  const std::string checkpoints =
      request.checkpoint_path.empty() ? layout.checkpoints : request.checkpoint_path;
  tasks_.run(
      [request, failures = std::move(failures), checkpoints, home = run_.home,
       path = base_environment(site_.environment).at("PATH")](const ChildTasks::Tell&) {
        CheckDone done = check_node(request, home, path, checkpoints);
        done.failures.insert(done.failures.end(), failures.begin(), failures.end());
        return encode(FromAgent{std::move(done)});
      },
      check_limit,
      [this, request, asked_ms](Result<std::string> frame) {
        if (frame) return checked(request, asked_ms, std::move(*frame));
        end_check({request.job, request.attempt});
        CheckDone hung{request.job, request.attempt, {}, {}};
        hung.failures.push_back(
            {"host.mount_stall",
             "the checks gave no answer: " + frame.error().message + "; a file system may hang"});
        line_.send(hung);
      });
}

// A node that is fit so far is measured, where that is asked for, before that is told.
void Agent::checked(const CheckNode& request, std::int64_t asked_ms, std::string frame) {
  const auto& profile = health_.profile();
  FrameReader reader;
  reader.feed(std::as_bytes(std::span(frame)));
  auto whole = reader.next();
  const AttemptKey key{request.job, request.attempt};
  const bool stands = end_check(key);  // of one that is over nobody would end the measurement
  const bool is_measured = stands && request.measures && profile && whole && *whole;
  if (!is_measured) return line_.send_encoded(std::move(frame));
  auto message = decode_from_agent(std::move(**whole));
  auto* done = message ? std::get_if<CheckDone>(&message->message) : nullptr;
  if (done == nullptr || !done->failures.empty()) return line_.send_encoded(std::move(frame));
  looks_.job_comes();  // who began to measure meanwhile
  GateMeasure::Wanted wanted{*profile, {request.skip, request.health.only}, std::nullopt};
  if (request.failed_ago) wanted.since = std::chrono::milliseconds(asked_ms) - *request.failed_ago;
  gate_.ask(
      key, std::move(wanted),
      [this, done = std::move(*done)](std::vector<CheckFailure> failures) mutable {
        done.failures = std::move(failures);
        when_none_measures([this, done = std::move(done)] { line_.send(done); });
      },
      runs_ranks() ? "ranks run there" : "");
}

void Agent::on(const StageTrees& request, std::string_view) {
  LocalAttempt* known = find(request.job, request.attempt);
  if (known != nullptr && known->start_request()) {
    return line_.send(StageDone{request.job, request.attempt, {}});
  }
  forget_when_over_.erase(request.job);  // it was resumed
  staging_.stage(request);
}

void Agent::on(const BlobData& piece, std::string_view payload) {
  staging_.receive(piece, payload);
}

void Agent::on(const ReservePorts& request, std::string_view) {
  PortsDone done{request.job, request.attempt, {}, {}};
  LocalAttempt& holder = attempt({request.job, request.attempt});
  if (static_cast<int>(holder.ports().size()) != request.count) {
    // Neighbouring agents begin their search at different places.
    const auto first =
        static_cast<unsigned>(std::hash<std::string>{}(token_of(run_, holder.key()) + run_.path));
    auto held = reserve_ports(request.count, request.port_min, request.port_max, first,
                              {run_.home + "/ports"});
    if (held) {
      if (!held->remark.empty()) log_line(held->remark);
      holder.hold_ports(std::move(*held));
    } else {
      done.error = held.error().message;
    }
  }
  if (done.error.empty()) done.ports = holder.ports();
  line_.send(done);
}

void Agent::on(const StartRanks& request, std::string_view) {
  if (leaving_ || ending_) {
    const std::string why = "the agent of node " + run_.node.value + " is leaving";
    return line_.send(StartDone{request.job, request.attempt, why});
  }
  if (remedies_.is_running()) {
    const std::string why = "node " + run_.node.value + " is being reset or rebooted";
    return line_.send(StartDone{request.job, request.attempt, why});
  }
  // Without one nobody would end the ranks when this agent stands still.
  if (Status kept = keep_keeper(); !kept) {
    return line_.send(StartDone{request.job, request.attempt, kept.error().message});
  }
  forget_when_over_.erase(request.job);
  health_.begin_job(request.health);
  health_.set_idle(false);
  looks_.end_wide();
  gate_.ranks_begin();
  reap();  // the first look: whoever dies from here on lived now
  attempt({request.job, request.attempt}).start(request);
  move_output();
  schedule_look();
}

void Agent::on(const SetMembers& request, std::string_view) {
  LocalAttempt* known = find(request.job, request.attempt);
  std::string error = "the attempt does not run on node " + run_.node.value;
  if (known != nullptr) error = known->set_members(request);
  line_.send(MembersSet{request.job, request.attempt, request.members_epoch, error});
}

void Agent::on(const StopAttempt& request, std::string_view) {
  staging_.cancel({request.job, request.attempt});
  checks_.erase({request.job, request.attempt});
  gate_.leave({request.job, request.attempt});
  reap();  // those who died before they were asked to stop did so by themselves
  health_.ranks_killed();
  attempt({request.job, request.attempt}).stop(request);
  step_attempts();
  // What there is before they save.
  if (LocalAttempt* saving = find(request.job, request.attempt)) watch_saving(*saving);
  schedule_tick();
}

void Agent::on(const CollectOutputs& request, std::string_view) {
  const AttemptKey key{request.job, request.attempt};
  collection_.begin(key, layout_of(run_, key));
}

void Agent::on(const LookAtRanks& request, std::string_view) {
  const LocalAttempt* known = find(request.job, request.attempt);
  if (known == nullptr || known->is_stopping()) return;
  std::vector<RankProcesses> ranks;
  for (const RankId rank : request.ranks) {
    ranks.push_back({rank, known->processes_of(rank), request.suspect == rank});
  }
  RanksLookedAt seen{request.job, request.attempt, {}};
  tasks_.run(
      [seen, ranks,
       path = base_environment(site_.environment).at("PATH")](const ChildTasks::Tell&) mutable {
        seen.ranks = look_at_ranks(ranks, path);
        return encode(FromAgent{seen});
      },
      look_limit,
      [this, seen, ranks](Result<std::string> frame) mutable {
        if (frame) return line_.send_encoded(std::move(*frame));
        for (const RankProcesses& one : ranks) {
          seen.ranks.push_back({one.rank, {"a closer look failed: " + frame.error().message}});
        }
        line_.send(seen);
      });
}

void Agent::on(const OutputAck& ack, std::string_view) {
  LocalAttempt* known = find(ack.job, ack.attempt);
  if (known == nullptr) return;
  known->output().acknowledge(ack.rank, ack.offset);
  known->move_output();
  tell_clean_if_owed(*known);
}

void Agent::on(const ForgetAttempt& request, std::string_view) {
  const AttemptKey key{request.job, request.attempt};
  staging_.cancel(key);
  checks_.erase(key);
  gate_.leave(key);
  if (LocalAttempt* known = find(request.job, request.attempt)) known->kill_now();
  forget_when_clean_.insert(key);
  step_attempts();
  schedule_tick();
}

void Agent::on(const ForgetJob& request, std::string_view) {
  auto& outputs_too = forget_when_over_[request.job];
  outputs_too = outputs_too || request.outputs_too;
  forget_jobs();
}

// Its attempts are forgotten one by one, each when nothing of it is left.
void Agent::forget_jobs() {
  std::erase_if(forget_when_over_, [this](const auto& item) {
    const auto& [job, outputs_too] = item;
    const bool is_held = std::ranges::any_of(
        attempts_, [&job](const auto& attempt) { return attempt.first.job == job; });
    if (is_held || staging_.knows(job)) return false;
    const AttemptLayout layout = layout_of(run_, {job, AttemptId{0}});
    for (const std::string& part : disposable_parts(layout.job, outputs_too)) discard(part);
    remove_if_empty(layout);
    sweep_soon();
    return true;
  });
}

// Renamed at once, so that the name is free, and removed by a child soon.
void Agent::discard(const std::string& path) {
  if (!path_exists(path)) return;
  std::string name =
      run_.path + "/" + trash_prefix + welcome_.agent_id + "." + std::to_string(next_trash_++);
  std::error_code failed;
  std::filesystem::rename(path, name, failed);
  trash_.push_back(failed ? path : std::move(name));
}

void Agent::remove_files(const AttemptLayout& layout) {
  discard(layout.spool);
  std::error_code not_empty;  // other attempts of the job are there
  std::filesystem::remove(std::filesystem::path(layout.spool).parent_path(), not_empty);
  discard(layout.code);
  sweep_soon();
}

void Agent::sweep_soon() {
  sweep_at_ = host_.clock.boot() + sweep_pause;
}

void Agent::sweep() {
  ::malloc_trim(0);  // what many attempts held goes back to the node
  tasks_.run(
      [trash = std::exchange(trash_, {})](const ChildTasks::Tell&) {
        for (const std::string& path : trash) static_cast<void>(remove_tree(path));
        return std::string();
      },
      removal_limit, [](const Result<std::string>&) {});
}

void Agent::on(const ExecStart& request, std::string_view) {
  LocalAttempt* known = find(request.job, request.attempt);
  if (known == nullptr || known->is_stopping() || known->is_clean()) {
    return execs_.refuse(request.id, "the attempt does not run on this node");
  }
  auto environment = known->environment_of(request.rank);
  if (!environment) return execs_.refuse(request.id, environment.error().message);
  auto pid = execs_.start(request, *environment, known->layout().code);
  if (!pid) return execs_.refuse(request.id, pid.error().message);
  known->add_session(*pid);
}

void Agent::on(const ExecInput& input, std::string_view payload) {
  execs_.input(input.id, payload);
}

void Agent::on(const ExecStop& request, std::string_view) {
  measures_due_.erase(request.id);
  looks_.stop(request.id);
  execs_.stop(request.id);
}

void Agent::on(const RemoteStart& request, std::string_view) {
  LocalAttempt* known = find(request.job, request.attempt);
  if (known != nullptr) return known->remote_start(request);
  line_.send(RemoteStartEnded{request.ticket, ExitStatus{255, 0},
                              "the attempt does not run on node " + run_.node.value});
}

void Agent::on(const RemoteStartEnded& ended, std::string_view) {
  const auto ask = remote_asks_.find(ended.ticket);
  if (ask == remote_asks_.end()) return;
  const auto peer = ask->second.asker;
  remote_asks_.erase(ask);
  peer->set_handlers({});
  peer->write(encode(ToAgent{ended}));
  peer->close_when_written();
}

void Agent::on(const Retire&, std::string_view) {
  if (attempts_.empty() && !remedies_.is_under_way()) leave("was retired");
}

}  // namespace muster
