// Agent's part that talks: who may connect, who is the controller, what mpirun asks.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/agent/agent.h"
#include "launcher/agent/attempt/mpi_launch.h"
#include "launcher/agent/keeper/job_folders.h"
#include "launcher/agent/node/log.h"
#include "launcher/agent/node_check.h"
#include "launcher/wire/message_codec.h"
#include "launcher/wire/mpi_daemon.h"

namespace muster {

namespace {

// It names directories, and in a token it ends at the dot before the attempt.
bool is_job_name(const std::string& name) {
  return is_plain_name(name) && name.find('.') == std::string::npos;
}

// Anew for each controller: a driver comes and goes.
int gpus_here(const Environment& own) {
  const auto root = own.find(system_root_name);
  const auto count = count_gpus(root == own.end() ? "/" : root->second);
  if (!count) log_line(count.error().message);
  return count ? *count : 0;
}

// Clouds that say nothing else give a host 30 s from SIGTERM to its end; systemd gives 90 s.
constexpr std::chrono::seconds shutdown_time{30};
// The controller knows the job's own signal and how long it may take: it goes first.
constexpr std::chrono::seconds controller_first{3};
// For what is killed then to be proven gone.
constexpr std::chrono::seconds proof_time{2};

}  // namespace

std::optional<ClockStamps> Agent::clock_stamps(std::optional<std::int64_t> sent_us) {
  if (!sent_us) return std::nullopt;
  const std::int64_t now_us = raw_time().count();
  return ClockStamps{*sent_us, now_us, now_us};
}

void Agent::accept_next() {
  is_accepting_ = true;
  acceptor_.async_accept([this](const boost::system::error_code& error, Socket socket) {
    is_accepting_ = false;
    // No descriptor is left, say: the next try is the next tick's, or this would turn in a circle.
    if (error || !acceptor_.is_open()) return;
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);  // no rank can speak to the controller
    auto peer = std::make_shared<PeerConnection>(std::move(socket));
    if (peer->is_of_user(::geteuid())) {
      strangers_.insert(peer);
      peer->start({[this, peer](Frame frame) { first_frame(peer, std::move(frame)); },
                   {},
                   [this, peer] { strangers_.erase(peer); }});
    }
    accept_next();
  });
}

// The first frame tells who it is: a controller says Hello, mpi-start asks for a daemon.
void Agent::first_frame(const std::shared_ptr<PeerConnection>& peer, Frame frame) {
  strangers_.erase(peer);
  end_with_lease();  // one that stood still beyond it hears nobody before it has ended its ranks
  auto hello = decode_to_agent(frame);
  if (hello && std::holds_alternative<Hello>(hello->message)) {
    return greet(peer, std::get<Hello>(hello->message));
  }
  auto asked = decode_from_agent(std::move(frame));
  if (asked && std::holds_alternative<RemoteStartAsked>(asked->message)) {
    return ask_remote_start(peer, std::get<RemoteStartAsked>(std::move(asked->message)));
  }
  log_line("hung up on a peer that did not say who it is");
  peer->close();
}

void Agent::greet(const std::shared_ptr<PeerConnection>& peer, const Hello& hello) {
  if (hello.controller_id != run_.controller || leaving_) {
    log_line("refused the controller " + hello.controller_id);
    return peer->close();
  }
  if (auto older = line_.detach()) {
    older->close();
    line_lost();
  }
  lease_.greeted(hello.lease, host_.clock.boot());
  grant_lease();
  cleaning_.keep(hello.retention);
  line_.attach(peer);
  peer->set_handlers({[this](Frame frame) { controller_frame(std::move(frame)); },
                      [this] { move_output(); },
                      [this] {
                        line_.detach();
                        line_lost();
                      }});
  welcome_.holds_attempts = !attempts_.empty();
  welcome_.held.clear();
  for (const auto& [key, attempt] : attempts_) welcome_.held.push_back({key.job, key.attempt});
  welcome_.folders = jobs_with_folders(run_);
  welcome_.gpus = gpus_here(site_.environment);
  welcome_.boot_ms = boot_ms();
  welcome_.clock = clock_stamps(hello.sent_us);
  line_.send(welcome_);
  notices_.watch(hello.notice_file);
  notices_.poll();
  if (const auto notice = notices_.state()) line_.send(*notice);
  health_.follow(hello.health);
  if (const auto faults = health_.state()) line_.send(*faults);
  for (const auto& [key, attempt] : attempts_) attempt->tell_known();
  // The controller may not have got what was asked over an earlier connection. The other node knows
  // a daemon that it has started already.
  for (const auto& [ticket, open] : remote_asks_) line_.send(open.asked);
  move_output();
}

void Agent::line_lost() {
  measures_due_.clear();
  looks_.end_wide();
  execs_.stop_all();
  staging_.line_lost();
  collection_.cancel_all();
}

void Agent::controller_frame(Frame frame) {
  end_with_lease();
  auto received = decode_to_agent(std::move(frame));
  if (!received) return log_line(received.error().message);
  std::visit(
      [&](const auto& message) {
        if constexpr (requires { message.job.value; }) {
          if (!is_job_name(message.job.value)) return log_line("refused a job's unusable name");
        }
        on(message, received->payload);
      },
      received->message);
}

void Agent::ask_remote_start(const std::shared_ptr<PeerConnection>& peer, RemoteStartAsked asked) {
  const LocalAttempt* attempt = find(asked.job, asked.attempt);
  const auto& start = attempt == nullptr ? std::nullopt : attempt->start_request();
  const auto refuse = [&](const std::string& why) {
    peer->write(encode(ToAgent{RemoteStartEnded{asked.ticket, ExitStatus{255, 0}, why}}));
    peer->close_when_written();
  };
  if (!start || !start->mpi || start->node_index != 0) {
    return refuse("this node runs no such mpirun");
  }
  if (const auto daemon = read_mpi_daemon(asked.command); !daemon) {
    return refuse(daemon.error().message);
  }
  const auto& hosts = start->mpi->hosts;
  const auto names = mpi_host_names(hosts, site_.host_name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == asked.host) asked.host = hosts[i];
  }
  asked.ticket = std::to_string(next_ticket_++);
  peer->set_handlers(
      {[](Frame) {}, {}, [this, ticket = asked.ticket] { remote_asks_.erase(ticket); }});
  line_.send(asked);  // without a line: with the next Welcome
  RemoteAsk& open = remote_asks_[asked.ticket];
  open = {peer, std::move(asked)};
}

void Agent::look_for_notice() {
  const auto news = notices_.poll();
  if (!news) return;
  log_line(news->over ? "the host stays: " + news->source + " is gone"
                      : "the host will be taken away, by " + news->source);
  line_.send(*news);
}

// What shuts a host down tells every process at once. The second time it is meant.
void Agent::host_shuts_down() {
  if (ending_ || attempts_.empty()) return leave("was told to end by a signal");
  log_line("was told to end by a signal: its ranks may save first");
  const BootTime now = host_.clock.boot();
  ending_ = Ending{line_.is_open() ? now + controller_first : now, now + shutdown_time};
  notices_.shut_down(shutdown_time, "SIGTERM to its agent");
  if (const auto notice = notices_.state()) line_.send(*notice);
  go_on_ending();
}

// With a controller, until it has collected all and lets the attempts be forgotten.
void Agent::go_on_ending() {
  if (!ending_ || leaving_) return;
  const BootTime now = host_.clock.boot();
  const BootTime last = ending_->leaves_at - proof_time;
  const bool is_done = attempts_.empty() || (!runs_ranks() && !line_.is_open());
  if (is_done || now >= last) return leave("was told to end by a signal");
  if (now < ending_->stops_at) return;
  const auto left = std::chrono::duration_cast<Milliseconds>(last - now);
  for (const auto& [key, attempt] : attempts_) {
    if (attempt->is_stopping() || attempt->is_clean()) continue;
    attempt->stop(StopAttempt{key.job, key.attempt, "SIGTERM", left, left});
  }
}

}  // namespace muster
