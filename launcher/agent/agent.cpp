#include "launcher/agent/agent.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <filesystem>

#include "launcher/agent/health/claim.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/node/log.h"
#include "launcher/agent/node_check.h"
#include "launcher/agent/watch/checkpoint.h"
#include "launcher/os/child.h"
#include "launcher/wire/message_codec.h"

extern char** environ;

namespace muster {

namespace {

// Heartbeats, metrics, room on the disk, the lease: twice a second is what the protocol promises.
constexpr std::chrono::milliseconds calm_tick{500};
static_assert(calm_tick <= HealthWatch::poll_pause);
// While something is being ended: a scan of /proc costs about 5 ms.
constexpr std::chrono::milliseconds busy_tick{25};
// How exactly the end of a rank is known: since the last look at which it lived, however long the
// agent was held up meanwhile. A look costs about 50 us of a core, with waking up for it. One that
// comes a whole interval late says that there are not enough of them: then half as many follow.
constexpr std::chrono::milliseconds usual_look{5};
constexpr std::chrono::milliseconds rarest_look{40};
// Reading checkpoint manifests from a slow shared file system.
constexpr Milliseconds probe_limit{20000};

Environment own_environment() {
  Environment environment;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos)
      environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return environment;
}

HealthWatch::Site health_site(const RunDirectory& run, const Environment& own,
                              const std::string& boot_id, std::function<void()> on_decided) {
  const auto root = own.find(system_root_name);
  return {root == own.end() ? "/" : root->second,
          run.path + "/health.json",
          {own_program(), "agent", "read-health"},
          boot_id,
          std::move(on_decided),
          MeasureClaim::is_held_here};
}

void add_checkpoints(AttemptClean& clean, const std::string& directory) {
  CheckpointProbe probe = probe_checkpoints(directory);
  clean.newest_checkpoint = std::move(probe.newest);
  clean.newest_certified = std::move(probe.newest_certified);
}

}  // namespace

Agent::Agent(boost::asio::io_context& io, const RunDirectory& run, AgentHost host,
             std::string build_id)
    : io_(io),
      run_(run),
      host_(host),
      acceptor_(io),
      signals_(io, SIGCHLD, SIGTERM, SIGINT),
      tick_timer_(io),
      look_timer_(io),
      site_{run, line_, host.processes, host.clock, host.keeper, host.lease.path(), io,
            [this] { move_output(); }, own_environment(), {}, {}, oom_},
      welcome_(describe_node()),
      tasks_(io),
      staging_(run, line_, tasks_),
      execs_(io, line_),
      looks_(run, execs_, measured_before_),
      gate_(tasks_, measured_before_, {run.path, {own_program()}, welcome_.boot_id}),
      collection_(line_),
      nobody_dead_at_(raw_time()),
      look_interval_(usual_look),
      lease_(host.clock.boot()),
      cleaning_({run.home, run.path, own_program()}, tasks_, host.clock.boot()),
      health_(io,
              health_site(run, site_.environment, welcome_.boot_id,
                          [this] { boost::asio::post(io_, [this] { move_output(); }); }),
              [this](const FaultsTold& told) { line_.send(told); }),
      remedies_(
          [this](const RemedyRun& ended) {
            if (!remedies_.is_running()) health_.take_up();
            line_.send(ended);
          },
          [this](const RunRemedy& done) {
            gate_.mended();
            if (done.step == RemedyStep::reset) health_.was_reset(done.device);
          }) {
  site_.host_name = welcome_.host_name;
  site_.boot_id = welcome_.boot_id;
  welcome_.build_id = std::move(build_id);
  welcome_.measures = true;
  welcome_.agent_id = welcome_.boot_id.substr(0, 8) + "-" +
                      std::to_string(host.clock.boot().count()) + "-" + std::to_string(::getpid());
  site_.on_rank_failed = [this](const AttemptKey& key) { health_.rank_died(key); };
  grant_lease();
  restore_attempts();
}

// Their handlers hold themselves.
Agent::~Agent() {
  for (const auto& peer : strangers_) peer->close();
  if (const auto connection = line_.detach()) connection->close();
}

void Agent::open(Fd listener) {
  acceptor_.assign(boost::asio::local::stream_protocol(), listener.release());
  watch_children();
  accept_next();
  schedule_tick();
}

bool Agent::has_left_nothing() const {
  return std::none_of(attempts_.begin(), attempts_.end(),
                      [](const auto& item) { return item.second->needs_keeper(); });
}

void Agent::restore_attempts() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(run_.path, ignored)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(trash_prefix)) trash_.push_back(entry.path().string());
  }
  sweep_soon();
  for (const AttemptKey& key : attempts_below(spools_root(run_))) {
    LocalAttempt& restored = attempt(key);
    restored.restore();
    restored.step(finder(restored));
    log_line("holds the output of " + key.job.value + " attempt " +
             std::to_string(key.attempt.value) + " of an earlier agent");
  }
}

Status Agent::keep_keeper() {
  std::vector<int> pipes;
  for (const auto& [key, attempt] : attempts_) attempt->output().list_pipes(pipes);
  return host_.keeper.ensure(pipes);
}

void Agent::replace_keeper() {
  const auto needs_keeper = [](const auto& item) { return item.second->needs_keeper(); };
  if (std::none_of(attempts_.begin(), attempts_.end(), needs_keeper)) return;
  if (Status kept = keep_keeper(); !kept) log_line(kept.error().message);
}

LocalAttempt& Agent::attempt(const AttemptKey& key) {
  auto& held = attempts_[key];
  if (!held) held = std::make_unique<LocalAttempt>(site_, key);
  return *held;
}

LocalAttempt* Agent::find(const JobId& job, AttemptId id) {
  const auto found = attempts_.find(AttemptKey{job, id});
  return found == attempts_.end() ? nullptr : found->second.get();
}

AttemptStop::Find Agent::finder(const LocalAttempt& attempt) const {
  return [this, &attempt] {
    ProcessMarks marks;
    marks.agent = ::getpid();
    if (attempt.group()) marks.members = attempt.group()->members();
    const std::string token = token_of(run_, attempt.key());
    marks.is_token = [&token](const std::string& other) { return other == token; };
    marks.socket_path = run_.socket_path();
    marks.spool_prefix = attempt.layout().spool + "/";
    marks.sessions = attempt.sessions();
    marks.other_sessions = {::getsid(0)};
    if (host_.keeper.pid()) marks.other_sessions.insert(*host_.keeper.pid());
    if (const pid_t helper = health_.helper()) marks.other_sessions.insert(helper);
    for (const pid_t session : looks_.sessions()) marks.other_sessions.insert(session);
    for (const auto& [session, until] : measured_before_.all()) {
      marks.other_sessions.insert(session);
    }
    if (const auto session = gate_.session()) marks.other_sessions.insert(*session);
    marks.other_sessions.merge(remedies_.sessions());
    for (const auto& [key, other] : attempts_) {
      if (other.get() == &attempt) continue;
      marks.other_sessions.insert(other->sessions().begin(), other->sessions().end());
      if (other->start_request() && !other->is_clean()) marks.takes_orphans = false;
    }
    return find_attempt_processes(host_.processes, marks);
  };
}

// ---- what happens by itself -------------------------------------------------------------------

void Agent::watch_children() {
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    if (signal == SIGCHLD) look_for_dead();
    if (signal == SIGTERM) host_shuts_down();
    if (signal == SIGINT) leave("was told to end by a signal");
    watch_children();
  });
}

// True: somebody was dead.
bool Agent::reap() {
  DeadChild child;
  child.earliest = nobody_dead_at_;
  bool found = false;
  while (true) {
    const RawTime now = raw_time();
    child.pid = host_.processes.reap(child.wait_status);
    if (child.pid <= 0) {
      nobody_dead_at_ = now;
      return found;
    }
    found = true;
    child.latest = raw_time();
    const pid_t pid = child.pid;
    if (host_.keeper.reaped(pid) || tasks_.reaped(pid)) continue;
    if (health_.reaped(pid, child.wait_status)) continue;
    if (remedies_.reaped(pid, child.wait_status)) continue;
    looks_.reaped(pid);
    if (execs_.reaped(pid, child.wait_status)) continue;
    for (const auto& [key, attempt] : attempts_) {
      if (attempt->reaped(child)) break;
    }
  }
}

void Agent::look_for_dead() {
  if (!reap()) return;
  replace_keeper();  // at once: an agent that is killed next has nobody to hold its pipes
  step_attempts();
}

// While ranks run the agent looks for dead ones even if it is told of none, so that it can say of
// each since when at most it has been dead, however long the agent itself was held up.
void Agent::schedule_look() {
  const bool is_needed = std::any_of(attempts_.begin(), attempts_.end(), [](const auto& item) {
    return item.second->has_live_ranks() && !item.second->is_stopping();
  });
  if (is_looking_ || !is_needed) return;
  is_looking_ = true;
  // All agents of a machine look at the same moments, so that it is woken once for all of them.
  const auto now = LookClock::now().time_since_epoch();
  look_timer_.expires_at(LookClock::time_point((now / look_interval_ + 1) * look_interval_));
  look_timer_.async_wait([this](const boost::system::error_code& error) {
    is_looking_ = false;
    if (error) return;
    const bool is_late = LookClock::now() - look_timer_.expiry() > usual_look;
    look_interval_ = is_late ? std::min(2 * look_interval_, rarest_look) : usual_look;
    look_for_dead();
    schedule_look();
  });
}

void Agent::schedule_tick() {
  const bool is_busy = leaving_ || !after_measurements_.empty() || remedies_.is_under_way() ||
                       std::any_of(attempts_.begin(), attempts_.end(),
                                   [](const auto& item) { return item.second->is_stopping(); });
  tick_timer_.expires_after(is_busy ? busy_tick : calm_tick);
  tick_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    tick();
    if (!io_.stopped()) schedule_tick();
  });
}

void Agent::tick() {
  end_with_lease();
  if (!is_accepting_ && acceptor_.is_open()) accept_next();
  replace_keeper();
  staging_.poll(host_.clock.boot());
  looks_.poll();
  gate_.poll();
  remedies_.poll();
  if (!remedies_.is_running()) health_.take_up();
  go_on_after_measurements();
  look_for_notice();
  health_.set_idle(!runs_ranks());
  health_.poll();
  if (!trash_.empty() && host_.clock.boot() >= sweep_at_) sweep();
  cleaning_.poll(host_.clock.boot());
  for (const auto& [key, attempt] : attempts_) {
    attempt->output().move();
    attempt->move_output();
    attempt->poll_progress();
    attempt->poll_activity();
    watch_checkpoints(*attempt);
    watch_saving(*attempt);
  }
  step_attempts();
  go_on_ending();
}

bool Agent::runs_ranks() const {
  return std::any_of(attempts_.begin(), attempts_.end(), [](const auto& item) {
    return item.second->start_request() && !item.second->is_clean();
  });
}

void Agent::step_attempts() {
  for (const auto& [key, attempt] : attempts_) {
    attempt->read_exit_log();
    attempt->step(finder(*attempt));
  }
  health_.set_idle(!runs_ranks());  // what it finds at once is told before the end is
  move_output();
  for (auto at = forget_when_clean_.begin(); at != forget_when_clean_.end();) {
    LocalAttempt* forgotten = find(at->job, at->attempt);
    if ((forgotten != nullptr && !forgotten->is_clean()) || staging_.is_busy(*at)) {
      ++at;
      continue;
    }
    remove_files(layout_of(run_, *at));
    checkpoints_.erase(*at);
    growths_.erase(*at);
    attempts_.erase(*at);
    at = forget_when_clean_.erase(at);
  }
  forget_jobs();
  const bool all_clean = std::none_of(attempts_.begin(), attempts_.end(),
                                      [](const auto& item) { return item.second->is_stopping(); });
  if (leaving_ && all_clean) io_.stop();
}

void Agent::move_output() {
  for (const auto& [key, attempt] : attempts_) {
    attempt->move_output();
    tell_clean_if_owed(*attempt);
  }
  collection_.pump();
  execs_.resume_reading();
}

void Agent::tell_clean_if_owed(LocalAttempt& attempt) {
  const bool is_awaited = staging_.is_busy(attempt.key()) || health_.is_deciding(attempt.key());
  const bool is_over = attempt.owes_clean() && !is_awaited;
  if (is_over && line_.is_open()) tell_clean(attempt);
}

void Agent::tell_clean(LocalAttempt& attempt) {
  attempt.clean_told();
  AttemptClean clean = attempt.clean_message();
  if (attempt.has_near_checkpoints()) {
    add_checkpoints(clean, attempt.checkpoint_directory());
    return line_.send(clean);
  }
  // Told when the directory cannot be looked at.
  if (const auto watch = checkpoints_.find(attempt.key()); watch != checkpoints_.end()) {
    clean.newest_checkpoint = watch->second.newest();
  }
  tasks_.run(
      [clean, directory = attempt.checkpoint_directory()](const ChildTasks::Tell&) mutable {
        add_checkpoints(clean, directory);
        return encode(FromAgent{clean});
      },
      probe_limit,
      [this, clean, asked_on = line_.generation()](Result<std::string> frame) {
        // A later connection has not got all the output yet; its controller asks again.
        if (line_.generation() != asked_on) return;
        line_.send_encoded(frame ? std::move(*frame) : encode(FromAgent{clean}));
      });
}

void Agent::watch_checkpoints(LocalAttempt& attempt) {
  if (!attempt.start_request() || attempt.is_clean() || !attempt.has_live_ranks()) return;
  const AttemptKey& key = attempt.key();
  const auto& ranks = attempt.start_request()->ranks;
  const auto tell = [this, key, rank = ranks.empty() ? RankId{} : ranks.front().rank](
                        const CheckpointRef& newest) {
    Progress progress;
    progress.job = key.job;
    progress.attempt = key.attempt;
    progress.rank = rank;
    progress.checkpoint = newest;
    line_.send(progress);
  };
  checkpoints_
      .try_emplace(key, tasks_, attempt.checkpoint_directory(), attempt.has_near_checkpoints(),
                   tell)
      .first->second.poll(CheckpointWatch::Clock::now());
}

// Ranks that were told to stop are given longer while they save.
void Agent::watch_saving(LocalAttempt& attempt) {
  if (!attempt.is_in_grace()) return;
  CheckpointGrowth& growth =
      growths_.try_emplace(attempt.key(), tasks_, attempt.checkpoint_directory()).first->second;
  growth.poll(CheckpointGrowth::Clock::now());
  if (const auto until = growth.saving_until()) attempt.extend_grace(*until);
}

// A reset that is killed in the middle leaves a GPU that nothing but a reboot brings back, and no
// ranks run meanwhile.
void Agent::grant_lease() {
  host_.lease.grant(remedies_.is_under_way() ? BootTime::max() / 2 : lease_.end());
}

void Agent::end_with_lease() {
  grant_lease();
  if (host_.clock.boot() <= host_.lease.until()) return;
  leave(line_.is_open() ? "heard nothing from its controller for the lease"
                        : "had no controller for the lease");
}

void Agent::leave(const char* why) {
  if (leaving_) return;
  leaving_ = true;
  log_line(std::string("leaves: it ") + why);
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  measures_due_.clear();
  looks_.end_wide();
  end_gates();
  execs_.stop_all();
  for (const auto& [key, attempt] : attempts_) attempt->kill_now();
  step_attempts();
  if (!io_.stopped()) schedule_tick();
}

}  // namespace muster
