#include "launcher/agent/agent.h"

#include <unistd.h>

#include <csignal>

#include "launcher/agent/node/log.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/agent/node_check.h"
#include "launcher/os/child.h"

namespace muster {

namespace {

// Heartbeats, metrics, room on the disk, the lease: twice a second is what the protocol promises.
constexpr std::chrono::milliseconds calm_tick{500};
static_assert(calm_tick <= HealthMonitor::poll_pause);
// While something is being ended: a scan of /proc costs about 5 ms.
constexpr std::chrono::milliseconds busy_tick{25};

// Clouds that say nothing else give a host 30 s from SIGTERM to its end; systemd gives 90 s.
constexpr std::chrono::seconds shutdown_time{30};
// The controller knows the job's own signal and how long it may take: it goes first.
constexpr std::chrono::seconds controller_first{3};
// For what is killed then to be confirmed stopped.
constexpr std::chrono::seconds proof_time{2};
constexpr const char* told_to_end = "was terminated by a signal";

Welcome welcome_of(const AgentClock& clock, std::string build_id) {
  Welcome welcome = describe_node();
  welcome.build_id = std::move(build_id);
  welcome.measures = true;
  welcome.agent_id = welcome.boot_id.substr(0, 8) + "-" + std::to_string(clock.boot().count()) +
                     "-" + std::to_string(::getpid());
  return welcome;
}

}  // namespace

Agent::Agent(boost::asio::io_context& io, const RunDirectory& run, AgentHost host,
             std::string build_id)
    : io_(io),
      host_(host),
      signals_(io, SIGCHLD, SIGTERM, SIGINT),
      tick_timer_(io),
      listener_(io, [this](const auto& peer, Frame frame) { first_frame(peer, std::move(frame)); }),
      lease_(host.clock.boot()),
      welcome_(welcome_of(host.clock, std::move(build_id))),
      site_{run,
            line_,
            host.processes,
            host.clock,
            host.keeper,
            host.lease.path(),
            io,
            [this] { move_output(); },
            own_environment(),
            welcome_.host_name,
            welcome_.boot_id,
            oom_,
            [this](const AttemptKey& key) { node_.rank_died(key); },
            [this](const DeadChild& child) { child_died(child); }},
      tasks_(io),
      execs_(io, line_),
      attempts_(site_, tasks_, welcome_.agent_id,
                {[this](const AttemptKey& key) { return node_.is_deciding(key); },
                 [this] { return node_.sessions(); }}),
      reaper_(io, host.processes,
              {[this](const DeadChild& child) { child_died(child); },
               [this] {
                 // At once: an agent that is killed next has nobody to hold its pipes.
                 attempts_.replace_keeper();
                 step_attempts();
               },
               [this] { return attempts_.are_running(); }}),
      node_(site_, tasks_, execs_,
            {[this] { return attempts_.run_ranks(); }, [this] { return is_leaving(); },
             [this] { move_output(); }, [this] { schedule_tick(); }}),
      cleaning_({run.home, run.path, self_exe()}, tasks_, host.clock.boot()) {
  grant_lease();
  attempts_.restore();
}

// Its handlers hold themselves.
Agent::~Agent() {
  if (const auto connection = line_.detach()) connection->close();
}

void Agent::open(Fd listener) {
  watch_signals();
  listener_.open(std::move(listener));
  schedule_tick();
}

// ---- what happens by itself -------------------------------------------------------------------

void Agent::watch_signals() {
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    if (signal == SIGCHLD) reaper_.look();
    if (signal == SIGTERM) host_shuts_down();
    if (signal == SIGINT) leave(told_to_end);
    watch_signals();
  });
}

void Agent::child_died(const DeadChild& child) {
  if (host_.keeper.reaped(child.pid) || tasks_.reaped(child.pid)) return;
  if (!node_.reaped(child)) attempts_.reaped(child);
}

void Agent::schedule_tick() {
  const bool is_busy =
      std::holds_alternative<Leaving>(phase_) || node_.is_busy() || attempts_.are_stopping();
  tick_timer_.expires_after(is_busy ? busy_tick : calm_tick);
  tick_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    tick();
    if (!io_.stopped()) schedule_tick();
  });
}

void Agent::tick() {
  end_with_lease();
  listener_.poll();
  attempts_.replace_keeper();
  look_for_notice();
  node_.poll();
  cleaning_.poll(host_.clock.boot());
  attempts_.poll();
  step_attempts();
  go_on_ending();
}

void Agent::step_attempts() {
  attempts_.step();
  node_.note_ranks();  // what it finds at once is told before the end is
  move_output();
  attempts_.remove_forgotten();
  const bool is_over = std::holds_alternative<Leaving>(phase_) && !attempts_.are_stopping();
  if (is_over) io_.stop();
}

void Agent::move_output() {
  attempts_.move_output();
  execs_.resume_reading();
}

void Agent::look_for_notice() {
  const auto news = notice_.poll();
  if (!news) return;
  log_line(news->over ? "reclaim cancelled: " + news->source + " is gone"
                      : "the host will be reclaimed, says " + news->source);
  line_.send(*news);
}

// ---- until when -------------------------------------------------------------------------------

// No ranks run while it must not be killed.
void Agent::grant_lease() {
  host_.lease.grant(node_.must_not_be_killed() ? BootTime::max() / 2 : lease_.end());
}

void Agent::end_with_lease() {
  grant_lease();
  if (host_.clock.boot() <= host_.lease.until()) return;
  leave(line_.is_open() ? "heard nothing from its controller for the lease"
                        : "had no controller for the lease");
}

// What shuts a host down tells every process at once. The second time it is meant.
void Agent::host_shuts_down() {
  if (is_leaving() || attempts_.are_none()) return leave(told_to_end);
  log_line("was terminated by a signal: its ranks may save first");
  const BootTime now = host_.clock.boot();
  phase_ = Ending{line_.is_open() ? now + controller_first : now, now + shutdown_time};
  notice_.shut_down(shutdown_time, "SIGTERM to its agent");
  if (const auto notice = notice_.state()) line_.send(*notice);
  go_on_ending();
}

// With a controller, until it has collected all and lets the attempts be forgotten.
void Agent::go_on_ending() {
  const auto* ending = std::get_if<Ending>(&phase_);
  if (ending == nullptr) return;
  const BootTime now = host_.clock.boot();
  const BootTime last = ending->leaves_at - proof_time;
  const bool is_done = attempts_.are_none() || (!attempts_.run_ranks() && !line_.is_open());
  if (is_done || now >= last) return leave(told_to_end);
  if (now < ending->stops_at) return;
  attempts_.stop_all(std::chrono::duration_cast<Milliseconds>(last - now));
}

void Agent::leave(const char* why) {
  if (std::holds_alternative<Leaving>(phase_)) return;
  phase_ = Leaving{};
  log_line(std::string("leaves: it ") + why);
  listener_.close();
  node_.end();
  execs_.stop_all();
  attempts_.kill_all();
  step_attempts();
  if (!io_.stopped()) schedule_tick();
}

}  // namespace muster
