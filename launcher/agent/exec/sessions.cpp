#include "launcher/agent/exec/sessions.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <optional>

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "launcher/agent/node/process_scan.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/os/child.h"
#include "launcher/os/fd.h"

namespace muster {

namespace {

// A background child may hold the pipes open after the command: it is given this long to be silent.
constexpr std::chrono::milliseconds trailing_output_limit{500};

// Input that the command has not read yet. The controller is not held up by it: the same connection
// carries the ranks' output.
constexpr std::size_t input_limit_bytes = 64u << 20;

// Of those that are waited for no longer.
constexpr std::chrono::seconds hung_look_pause{5};

}  // namespace

struct ExecSessions::Stream {
  Stream(boost::asio::io_context& io, bool errors) : pipe(io), is_stderr(errors) {}
  boost::asio::posix::stream_descriptor pipe;
  bool is_stderr;
  bool is_waiting_for_room = false;
  std::array<char, 65536> buffer;
};

struct ExecSessions::Session {
  explicit Session(boost::asio::io_context& io)
      : input(io), output(io, false), errors(io, true), trailing(io) {}
  std::string id;
  pid_t pid = 0;
  boost::asio::posix::stream_descriptor input;
  std::deque<std::string> unwritten;
  std::size_t unwritten_bytes = 0;
  bool input_ends = false;
  std::string fault;
  Stream output;
  Stream errors;
  boost::asio::steady_timer trailing;
  std::optional<ExitStatus> status;
};

ExecSessions::ExecSessions(boost::asio::io_context& io, ControllerLine& line)
    : io_(io), line_(line) {}
ExecSessions::~ExecSessions() = default;

void ExecSessions::refuse(const std::string& id, const std::string& why) {
  line_.send(ExecEnded{id, ExitStatus{127, 0}, why});
}

Result<pid_t> ExecSessions::start(const ExecStart& request, const Environment& environment,
                                  const std::string& directory) {
  auto in = make_pipe();
  auto out = make_pipe();
  auto err = make_pipe();
  if (!in || !out || !err) return Error{"could not make pipes for the command"};
  if (request.argv.empty()) return Error{"no command was given"};
  SpawnRequest spawned;
  spawned.argv = request.argv;
  spawned.environment = environment;
  spawned.directory = directory;
  spawned.input = in->read_end.get();
  spawned.output = out->write_end.get();
  spawned.errors = err->write_end.get();
  auto pid = spawn(spawned);
  if (!pid) return pid.error();
  auto session = std::make_shared<Session>(io_);
  session->id = request.id;
  session->pid = *pid;
  session->input.assign(in->write_end.release());
  session->output.pipe.assign(out->read_end.release());
  session->errors.pipe.assign(err->read_end.release());
  sessions_[request.id] = session;
  read_more(session, session->output);
  read_more(session, session->errors);
  return *pid;
}

void ExecSessions::read_more(const std::shared_ptr<Session>& session, Stream& stream) {
  if (line_.is_open() && !line_.has_room()) {
    stream.is_waiting_for_room = true;
    return;
  }
  stream.pipe.async_read_some(
      boost::asio::buffer(stream.buffer),
      [this, session, &stream](const boost::system::error_code& error, std::size_t count) {
        if (count > 0) {
          line_.send(ExecOutput{session->id, stream.is_stderr},
                     std::string_view(stream.buffer.data(), count));
        }
        if (!error) return read_more(session, stream);
        boost::system::error_code ignored;
        stream.pipe.close(ignored);
        finish_if_over(session);
      });
}

void ExecSessions::resume_reading() {
  for (const auto& [id, session] : sessions_) {
    for (Stream* stream : {&session->output, &session->errors}) {
      if (!stream->is_waiting_for_room || !line_.has_room()) continue;
      stream->is_waiting_for_room = false;
      read_more(session, *stream);
    }
  }
}

void ExecSessions::input(const std::string& id, std::string_view bytes) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || !found->second->input.is_open()) return;
  const auto& session = found->second;
  const bool is_idle = session->unwritten.empty();
  if (bytes.empty()) {
    session->input_ends = true;
  } else {
    session->unwritten.emplace_back(bytes);
    session->unwritten_bytes += bytes.size();
  }
  if (session->unwritten_bytes > input_limit_bytes) {
    session->fault = "the command did not read its input: more than 64 MiB of it wait";
    session->unwritten.resize(1);  // that one is being written
    session->unwritten_bytes = 0;
    session->input_ends = true;
    return stop(id);
  }
  if (is_idle) write_input(session);
}

void ExecSessions::write_input(const std::shared_ptr<Session>& session) {
  boost::system::error_code ignored;
  if (session->unwritten.empty()) {
    if (session->input_ends) session->input.close(ignored);
    return;
  }
  boost::asio::async_write(session->input, boost::asio::buffer(session->unwritten.front()),
                           [this, session](const boost::system::error_code& error, std::size_t) {
                             boost::system::error_code close_error;
                             session->unwritten_bytes -= std::min(
                                 session->unwritten_bytes, session->unwritten.front().size());
                             session->unwritten.pop_front();
                             if (!error) return write_input(session);
                             session->unwritten.clear();
                             session->input.close(close_error);
                           });
}

void ExecSessions::stop(const std::string& id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  // Not reaped yet, so the number is still the command's, and its session's.
  if (!found->second->status) ::kill(-found->second->pid, SIGKILL);
}

void ExecSessions::stop_all() {
  for (const auto& [id, session] : sessions_) {
    if (!session->status) ::kill(-session->pid, SIGKILL);
  }
}

bool ExecSessions::reaped(pid_t pid, int wait_status) {
  for (const auto& [id, session] : sessions_) {
    if (session->pid != pid || session->status) continue;
    session->status = exit_status_of(wait_status);
    session->trailing.expires_after(trailing_output_limit);
    session->trailing.async_wait([this, held = session](const boost::system::error_code& error) {
      if (!error) finish(held);
    });
    finish_if_over(std::shared_ptr<Session>(session));
    return true;
  }
  return false;
}

void ExecSessions::finish_if_over(const std::shared_ptr<Session>& session) {
  const bool is_silent = !session->output.pipe.is_open() && !session->errors.pipe.is_open();
  if (session->status && is_silent) finish(session);
}

void ExecSessions::finish(const std::shared_ptr<Session>& session) {
  const auto found = sessions_.find(session->id);
  if (found == sessions_.end() || found->second != session) return;
  sessions_.erase(found);
  session->trailing.cancel();
  boost::system::error_code ignored;
  session->input.close(ignored);
  session->output.pipe.close(ignored);
  session->errors.pipe.close(ignored);
  line_.send(ExecEnded{session->id, *session->status, session->fault});
}

void EndingSessions::add(pid_t session) {
  until_.try_emplace(session, boot_time() + limit_);
}

bool EndingSessions::are_gone() {
  if (until_.empty()) return true;
  const BootTime now = boot_time();
  const auto is_waited_for = [now](const auto& item) { return now < item.second; };
  if (std::ranges::none_of(until_, is_waited_for) && now < look_at_) return true;
  look_at_ = now + hung_look_pause;
  alive_.clear();
  for (const ProcessInfo& one : scan_processes()) {
    if (!one.is_dead() && until_.contains(one.session)) alive_.emplace(one.session, describe(one));
  }
  std::erase_if(until_, [&](const auto& item) { return !alive_.contains(item.first); });
  return std::ranges::none_of(until_, is_waited_for);
}

std::set<pid_t> EndingSessions::all() const {
  std::set<pid_t> sessions;
  for (const auto& [session, until] : until_) sessions.insert(session);
  return sessions;
}

std::string EndingSessions::hung() const {
  const BootTime now = boot_time();
  for (const auto& [session, until] : until_) {
    const auto known = alive_.find(session);
    if (now < until || known == alive_.end()) continue;
    return "process " + known->second + " of what was measured before does not end";
  }
  return {};
}

}  // namespace muster
