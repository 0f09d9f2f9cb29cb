#include "cli/client/exec_session.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "cli/terminal/terminal.h"
#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

constexpr int not_launched = static_cast<int>(ExitCode::launch);

// 20 ms of a fast network, and what 64 connections of a reader that stands still may cost.
constexpr std::int64_t window_bytes = 1 << 20;

// So much a pipe takes at once when poll says that it takes something.
constexpr std::size_t pipe_piece_bytes = 4096;

namespace fs = std::filesystem;

constexpr Milliseconds keygen_limit{10000};

Status make_keys(const fs::path& place, const JobId& job) {
  if (::mkdir(place.c_str(), 0700) != 0) return system_error("make " + place.string());
  for (const char* name : {"identity", "host"}) {
    const auto made = run_within({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C",
                                  "muster-" + job.value, "-f", (place / name).string()},
                                 keygen_limit);
    if (made) continue;
    return Error{"cannot make ssh keys for job " + job.value + ": " + made.error().message +
                 "; ssh-keygen is of the package openssh-client"};
  }
  const std::string known = "muster-" + job.value + " " + text_of_file(place / "host.pub");
  if (replace_file(place / "known_hosts", known, 0600, Durable::in_cache)) return Done{};
  return system_error("write " + (place / "known_hosts").string());
}

}  // namespace

ExecChannel exec_channel() {
  ExecChannel channel;
  channel.window = window_bytes;
  return channel;
}

int ExecSession::run(const Exec& request) {
  channel_ = request.channel;
  if (const auto sent = client_.send(request); !sent)
    return refused(sent.error().message, internal_error);
  while (!is_over()) {
    // Input waits until the command is there to take it.
    const bool takes_input =
        started_ && input_open_ && !exit_code_ && (!channel_ || on_its_way_ < channel_->window);
    std::array<pollfd, 4> wanted{
        pollfd{exit_code_ ? -1 : client_.descriptor(), POLLIN, 0},
        pollfd{takes_input ? ends_.input : -1, POLLIN, 0},
        pollfd{channel_ ? ends_.output : -1, static_cast<short>(untaken_.empty() ? 0 : POLLOUT), 0},
        pollfd{ends_.terminal ? ends_.terminal->descriptor() : -1, POLLIN, 0}};
    if (::poll(wanted.data(), wanted.size(), -1) < 0 && errno != EINTR) break;
    if (wanted[0].revents != 0) {
      if (const auto taken = take_messages(); !taken)
        return refused(taken.error().message, internal_error);
    }
    if (wanted[3].revents != 0) pass_size();
    if ((wanted[2].revents & POLLOUT) != 0)
      pass_output();
    else if (wanted[2].revents != 0)
      break_off(SIGPIPE);
    if (!exit_code_ && wanted[1].revents != 0) pass_input();
  }
  return exit_code_.value_or(internal_error);
}

int ExecSession::refused(const std::string& why, int exit_code) {
  if (ends_.terminal != nullptr) ends_.terminal->leave();
  return print_error(why, exit_code, common_);
}

Status ExecSession::take_messages() {
  auto message = client_.receive(Milliseconds{0});
  while (message && *message) {
    take((*message)->message, (*message)->payload);
    if (exit_code_) return Done{};
    message = client_.receive(Milliseconds{0});
  }
  if (!message) return message.error();
  return Done{};
}

void ExecSession::take(const FromController& message, const std::string& payload) {
  if (std::holds_alternative<Accepted>(message)) {
    started_ = true;
  } else if (const auto* output = std::get_if<ExecOutput>(&message)) {
    take_output(*output, payload);
  } else if (const auto* taken = std::get_if<ExecTaken>(&message)) {
    on_its_way_ -= taken->bytes;
  } else if (const auto* ended = std::get_if<ExecEnded>(&message)) {
    end(*ended);
  } else if (const auto* no = std::get_if<Refused>(&message)) {
    exit_code_ = refused(no->message, no->exit_code);
  }
}

void ExecSession::take_output(const ExecOutput& output, const std::string& payload) {
  if (!channel_ || output.is_stderr) {
    write_all(output.is_stderr ? Stream::err : Stream::out, payload);
    return tell_taken(static_cast<std::int64_t>(payload.size()));
  }
  if (passed_ > untaken_.size() / 2) untaken_.erase(0, std::exchange(passed_, 0));
  untaken_ += payload;
  if (!payload.empty()) return;
  output_ends_ = true;
  if (untaken_.empty()) end_output();
}

void ExecSession::end(const ExecEnded& ended) {
  const ExitStatus& status = ended.status;
  exit_code_ = status.signal != 0 ? exit_code_of_signal(status.signal) : status.code;
  if (!ended.error.empty()) exit_code_ = refused(ended.error, not_launched);
}

// A connection that takes no more input still has the command's last words to give.
void ExecSession::pass_input() {
  std::array<char, 16384> bytes;
  const ssize_t got = ::read(ends_.input, bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  // Whose terminal is gone, or whose peer has broken off, wants no answer.
  const bool is_gone = (got <= 0 && channel_ && channel_->terminal) || (got < 0 && channel_);
  if (is_gone) return break_off(SIGHUP);
  const auto size = static_cast<std::size_t>(std::max<ssize_t>(0, got));
  on_its_way_ += static_cast<std::int64_t>(size);
  input_open_ = client_.send(ExecInput{}, {bytes.data(), size}) && size > 0;
}

// Nobody is there to read what comes.
void ExecSession::break_off(int signal) {
  if (!exit_code_) exit_code_ = exit_code_of_signal(signal);
  untaken_.clear();
}

// Never waits: who waits to write to us may not read before that.
void ExecSession::pass_output() {
  const std::string_view rest = std::string_view(untaken_).substr(passed_);
  ssize_t sent = ::send(ends_.output, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno == ENOTSOCK) {
    sent = ::write(ends_.output, rest.data(), std::min(rest.size(), pipe_piece_bytes));
  }
  if (sent < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (sent < 0) return break_off(SIGPIPE);
  passed_ += static_cast<std::size_t>(sent);
  if (passed_ == untaken_.size()) {
    untaken_.clear();
    passed_ = 0;
  }
  if (untaken_.empty() && output_ends_) end_output();
  tell_taken(sent);
}

// Not each time, and before the node stands still.
void ExecSession::tell_taken(std::int64_t bytes) {
  untold_ += bytes;
  if (!channel_ || exit_code_ || untold_ < channel_->window / 4) return;
  ExecControl control;
  control.taken = std::exchange(untold_, 0);
  if (!client_.send(control)) input_open_ = false;  // why, the next look at the connection tells
}

// Its reader is told; the other direction goes on.
void ExecSession::end_output() {
  if (::shutdown(ends_.output, SHUT_WR) == 0 || errno != ENOTSOCK) return;
  const Fd nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ::dup2(nothing.get(), ends_.output);
}

void ExecSession::pass_size() {
  const WindowSize shape = ends_.terminal->resized();
  ExecControl control;
  control.rows = shape.rows;
  control.columns = shape.columns;
  if (!client_.send(control)) input_open_ = false;
}

// Whole or not at all, and who comes at the same time takes those of the first.
Result<SshKeys> ssh_keys_of(const Home& home, const JobId& job) {
  const fs::path directory = ssh_directory(home, job);
  std::error_code ignored;
  if (!fs::exists(directory, ignored)) {
    const fs::path made = directory.string() + "." + std::to_string(::getpid());
    const Status keys = make_keys(made, job);
    if (keys) fs::rename(made, directory, ignored);
    fs::remove_all(made, ignored);
    if (!keys) return keys.error();
  }
  SshKeys keys{text_of_file(directory / "host"), text_of_file(directory / "identity.pub")};
  if (!keys.host_key.empty() && !keys.authorized_key.empty()) return keys;
  return Error{"cannot read the ssh keys of job " + job.value + " in " + directory.string()};
}

}  // namespace muster
