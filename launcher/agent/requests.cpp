// Agent's part that talks: who may connect, who is the controller, and what it asks of the agent
// itself. What it asks of an attempt or of the node is handled there.
#include <filesystem>
#include <system_error>
#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/agent/exec/sessions.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/node/log.h"
#include "launcher/agent/node_check.h"
#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

// It names directories, and in a token it ends at the dot before the attempt.
bool is_job_name(const std::string& name) {
  return is_plain_name(name) && name.find('.') == std::string::npos;
}

// Anew for each controller: a driver comes and goes.
int gpus_here(const Environment& own) {
  const auto count = count_gpus(system_root(own));
  if (!count) log_line(count.error().message);
  return count ? *count : 0;
}

std::optional<ClockStamps> clock_stamps(std::optional<std::int64_t> sent_us) {
  if (!sent_us) return std::nullopt;
  const std::int64_t now_us = raw_time().count();
  return ClockStamps{*sent_us, now_us, now_us};
}

}  // namespace

// ---- who is there -----------------------------------------------------------------------------

// A controller says Hello, mpi-start asks for a daemon, also from within a container.
void Agent::first_frame(const std::shared_ptr<PeerConnection>& peer, Frame frame) {
  end_with_lease();  // one that stood still beyond it hears nobody before it has ended its ranks
  auto hello = decode<ToAgent>(frame);
  if (hello && std::holds_alternative<Hello>(hello->message) && peer->is_of_this_host()) {
    return greet(peer, std::get<Hello>(hello->message));
  }
  auto asked = decode<FromAgent>(std::move(frame));
  if (asked && std::holds_alternative<RemoteStartAsked>(asked->message)) {
    return attempts_.ask(peer, std::move(std::get<RemoteStartAsked>(asked->message)));
  }
  log_line("disconnected a peer that did not say who it is");
  peer->close();
}

void Agent::greet(const std::shared_ptr<PeerConnection>& peer, const Hello& hello) {
  if (hello.controller_id != site_.run.controller || std::holds_alternative<Leaving>(phase_)) {
    log_line("refused the controller " + hello.controller_id);
    return peer->close();
  }
  if (auto older = line_.detach()) {
    older->close();
    line_lost();
  }
  lease_.greeted(hello.near_lease.value_or(hello.lease), host_.clock.boot());
  grant_lease();
  cleaning_.keep(hello.retention);
  line_.attach(peer);
  peer->set_handlers({[this](Frame frame) { controller_frame(std::move(frame)); },
                      [this] { move_output(); },
                      [this] {
                        line_.detach();
                        line_lost();
                      }});
  welcome_.holds_attempts = !attempts_.are_none();
  welcome_.held = attempts_.list();
  welcome_.folders = jobs_with_folders(site_.run);
  welcome_.gpus = gpus_here(site_.environment);
  welcome_.boot_ms = boot_ms();
  welcome_.clock = clock_stamps(hello.sent_us);
  welcome_.lease = lease_.agreed();
  line_.send(welcome_);
  notice_.watch(hello.notice_file);
  notice_.poll();
  if (const auto notice = notice_.state()) line_.send(*notice);
  node_.follow(hello.health);
  attempts_.report_known();
  move_output();
}

void Agent::line_lost() {
  node_.line_lost();
  execs_.stop_all();
  attempts_.line_lost();
}

// ---- what is asked ----------------------------------------------------------------------------

void Agent::controller_frame(Frame frame) {
  end_with_lease();
  auto received = decode<ToAgent>(std::move(frame));
  if (!received) return log_line(received.error().message);
  std::visit(
      [&](const auto& message) {
        if constexpr (requires { message.job.value; }) {
          if (!is_job_name(message.job.value)) return log_line("refused a job's unusable name");
        }
        if constexpr (requires { attempts_.handle(message, received->payload); }) {
          attempts_.handle(message, received->payload);
        } else if constexpr (requires { node_.handle(message, received->payload); }) {
          node_.handle(message, received->payload);
        } else if constexpr (requires { execs_.handle(message, received->payload); }) {
          execs_.handle(message, received->payload);
        } else {
          handle(message, received->payload);
        }
      },
      received->message);
}

void Agent::handle(const Ping& ping, std::string_view) {
  if (ping.heard_ms) {
    lease_.heard(std::chrono::milliseconds(*ping.heard_ms), host_.clock.boot());
    grant_lease();
  }
  line_.send(Pong{boot_ms(), clock_stamps(ping.sent_us)});
}

void Agent::handle(const StartRanks& request, std::string_view) {
  const std::string& node = site_.run.node.value;
  const auto refuse = [&](const std::string& why) {
    line_.send(StartDone{request.job, request.attempt, why});
  };
  if (is_leaving()) return refuse("the agent of node " + node + " is leaving");
  if (node_.is_remediated()) return refuse("node " + node + " is being reset or rebooted");
  // Without one nobody would end the ranks when this agent stands still.
  if (Status ensured = attempts_.ensure_keeper(); !ensured) return refuse(ensured.error().message);
  node_.ranks_begin(request.health);
  reaper_.reap();  // the first look: whoever dies from here on lived now
  attempts_.start(request);
  move_output();
  reaper_.look_often();
}

void Agent::handle(const StopAttempt& request, std::string_view) {
  node_.attempt_over(key_of(request));
  execs_.end_connections(key_of(request));
  reaper_.reap();  // those who died before they were asked to stop did so by themselves
  node_.ranks_killed();
  attempts_.stop(request);
  step_attempts();
  // What there is before they save.
  attempts_.watch_saving(key_of(request));
  schedule_tick();
}

void Agent::handle(const ForgetAttempt& request, std::string_view) {
  node_.attempt_over(key_of(request));
  execs_.end_connections(key_of(request));
  // Keys go at once: this agent may leave before the rest has gone.
  std::error_code ignored;
  std::filesystem::remove_all(layout_of(site_.run, key_of(request)).spool + "/ssh", ignored);
  attempts_.forget(request);
  step_attempts();
  schedule_tick();
}

void Agent::handle(const ExecStart& request, std::string_view) {
  LocalAttempt* known = attempts_.find(key_of(request));
  if (known == nullptr || known->is_stopping() || known->is_clean()) {
    return execs_.refuse(request.id, "the attempt does not run on this node");
  }
  auto environment = known->environment_of(request.rank);
  if (!environment) return execs_.refuse(request.id, environment.error().message);
  if (request.channel && !request.channel->socket.empty()) {
    const std::string services = services_directory(known->layout());
    const bool is_service = request.channel->socket.starts_with(services);
    const Status dialled = execs_.connect(request, is_service ? services : known->layout().job);
    return dialled ? void() : execs_.refuse(request.id, dialled.error().message);
  }
  ExecStart wanted = request;
  const bool is_ssh = request.channel && request.channel->ssh;
  if (is_ssh && known->is_in_container()) {
    return execs_.refuse(request.id, "ssh into a container is not supported yet: use muster ssh");
  }
  const bool wants_shell = known->is_in_container() && request.channel && request.argv.empty();
  if (wants_shell) wanted.argv = {"sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"};
  const Status made = complete(wanted, *environment, known->layout().spool);
  if (!made) return execs_.refuse(request.id, made.error().message);
  auto pid =
      execs_.start(wanted, *environment, known->layout().code,
                   [known](const SpawnRequest& spawned) { return known->start_beside(spawned); });
  if (!pid) return execs_.refuse(request.id, pid.error().message);
  known->add_session(*pid);
}

void Agent::handle(const ExecStop& request, std::string_view) {
  node_.stop(request.id);
  execs_.stop(request.id);
}

void Agent::handle(const Retire&, std::string_view) {
  if (attempts_.are_none() && !node_.must_not_be_killed()) leave("was retired");
}

}  // namespace muster
