#include "launcher/agent/exec/sessions.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <filesystem>
#include <optional>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "launcher/agent/node/process_scan.h"
#include "launcher/os/child.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// A background child may hold the pipes open after the command: it is given this long to be silent.
constexpr std::chrono::milliseconds trailing_output_limit{500};

// Input that the command has not read yet. The controller is not held up by it: the same connection
// carries the ranks' output.
constexpr std::size_t input_limit_bytes = 64u << 20;

// More in flight is of no use to anybody, less makes a long way slow.
constexpr std::int64_t least_window_bytes = 64 << 10;
constexpr std::int64_t most_window_bytes = 4 << 20;

// On the same host: longer only where the program does not accept.
constexpr std::chrono::seconds connect_limit{10};

// Of those that are waited for no longer.
constexpr std::chrono::seconds hung_look_pause{5};

// The ends of a command's streams: ours, and its own. A terminal is all of them at once.
struct CommandEnds {
  Fd input, output, errors;
  Fd its_input, its_output, its_errors;
};

Result<CommandEnds> pipe_ends() {
  auto in = make_pipe();
  auto out = make_pipe();
  auto err = make_pipe();
  if (!in || !out || !err) return Error{"could not make pipes for the command"};
  return CommandEnds{std::move(in->write_end),  std::move(out->read_end),
                     std::move(err->read_end),  std::move(in->read_end),
                     std::move(out->write_end), std::move(err->write_end)};
}

Fd another(const Fd& fd) {
  return Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
}

Result<CommandEnds> terminal_ends(const TerminalShape& shape) {
  auto terminal = open_terminal(shape);
  if (!terminal) return terminal.error();
  CommandEnds ends;
  ends.output = another(terminal->master);
  ends.its_output = another(terminal->slave);
  ends.its_errors = another(terminal->slave);
  if (!ends.output || !ends.its_output || !ends.its_errors) return system_error("open a terminal");
  ends.input = std::move(terminal->master);
  ends.its_input = std::move(terminal->slave);
  return ends;
}

namespace fs = std::filesystem;

constexpr std::size_t terminal_name_limit = 64;

unsigned short cells(int count) {
  return static_cast<unsigned short>(std::clamp(count, 0, 0xffff));
}

// It becomes part of a path where programs look up what the terminal can do.
std::string terminal_name(const std::string& given) {
  return given.size() <= terminal_name_limit && is_word_of(given, "-_.+") ? given : "dumb";
}

Result<Fd> connecting(int family, const void* address, socklen_t size, const std::string& name) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int begun = ::connect(socket.get(), static_cast<const sockaddr*>(address), size);
  if (begun != 0 && errno != EINPROGRESS) return system_error("connect to " + name);
  return socket;
}

Result<Fd> dial_port(const std::string& name) {
  const auto port = read_integer(name).value_or(0);
  if (port < 1 || port > 0xffff) {
    return Error{"'" + name + "' is neither a port nor the absolute path of a socket"};
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connecting(AF_INET, &address, sizeof address, "127.0.0.1:" + name);
}

// The socket itself is held while it is looked at, so that no other can take its name meanwhile.
Result<Fd> dial_path(const std::string& name, const std::string& directory) {
  const Fd found(::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!found) return system_error("connect to " + name);
  const std::string held = "/proc/self/fd/" + std::to_string(found.get());
  std::error_code failure;
  const std::string real = fs::read_symlink(held, failure).string();
  const std::string root = fs::canonical(directory, failure).string() + "/";
  struct stat facts {};
  const bool is_ours = !failure && real.starts_with(root) && ::fstat(found.get(), &facts) == 0 &&
                       S_ISSOCK(facts.st_mode) && facts.st_uid == ::geteuid();
  if (!is_ours) {
    return Error{name + " is refused: only a socket of the job's account in the job's directory " +
                 directory + " can be reached"};
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  held.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return connecting(AF_UNIX, &address, sizeof address, name);
}

// A login shell's profile sets PATH anew; the rank's is what people come for. These words mean the
// same in every shell.
void become_login_shell(ExecStart& request, Environment& environment) {
  const passwd* account = ::getpwuid(::geteuid());
  const bool has_shell =
      account != nullptr && account->pw_shell != nullptr && *account->pw_shell != '\0';
  environment["SHELL"] = has_shell ? account->pw_shell : "/bin/sh";
  environment["MUSTER_RANK_PATH"] = environment["PATH"];
  request.argv = {environment["SHELL"], "-l", "-c",
                  R"(exec env PATH="$MUSTER_RANK_PATH" "$SHELL" -i)"};
}

std::string in_quotes(const std::string& path) {
  return "\"" + replaced(path, "%", "%%") + "\"";
}

// In one line: of several sshd takes the first. What its file cannot hold is left out, and what it
// sets itself.
std::string variables_line(const Environment& environment) {
  constexpr std::string_view own[] = {"HOME", "LOGNAME", "MAIL", "SHELL", "TERM", "USER"};
  std::string line = "SetEnv";
  for (const auto& [name, value] : environment) {
    const auto is_unfit = [](unsigned char c) { return c < ' ' || c == '"' || c == '\\'; };
    if (std::ranges::count(own, name) > 0 || std::ranges::any_of(value, is_unfit)) continue;
    line += " \"" + name + "=" + value + "\"";
  }
  return line + "\n";
}

std::string sshd_settings(const std::string& directory, const Environment& environment) {
  return "HostKey " + in_quotes(directory + "/host_key") + "\nAuthorizedKeysFile " +
         in_quotes(directory + "/authorized_keys") +
         (::geteuid() == 0 ? "\nAllowUsers root" : "") +  // any other can only let itself in
         "\nPermitRootLogin prohibit-password\nPubkeyAuthentication yes\n"
         "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n"
         "StrictModes no\nPidFile none\nPrintMotd no\nLogLevel ERROR\n"
         "Subsystem sftp internal-sftp\n" +
         variables_line(environment);
}

Status become_sshd(ExecStart& request, const Environment& environment,
                   const std::string& attempt_directory) {
  const auto sshd = find_program("sshd", "/usr/sbin:/usr/local/sbin:/sbin:/usr/bin");
  if (!sshd) {
    return Error{"there is no sshd on this node: install the package openssh-server there"};
  }
  const std::string directory = attempt_directory + "/ssh";
  const auto write = [&](const char* name, const std::string& text) {
    return replace_file(directory + name, text, 0600, Durable::in_cache);
  };
  const bool is_written = (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) &&
                          write("/host_key", request.channel->ssh->host_key) &&
                          write("/authorized_keys", request.channel->ssh->authorized_key) &&
                          write("/sshd_config", sshd_settings(directory, environment));
  if (!is_written) return system_error("write the files of sshd to " + directory);
  // Root's sshd shuts itself in there; the package's service makes it, and may not have run.
  if (::geteuid() == 0) ::mkdir("/run/sshd", 0755);
  request.argv = {*sshd, "-i", "-e", "-f", directory + "/sshd_config"};
  return Done{};
}

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
  AttemptKey attempt;
  pid_t pid = 0;  // of a connection: none
  bool is_connection = false;
  bool is_connecting = false;
  bool has_terminal = false;
  std::int64_t window = 0;   // 0: without
  std::int64_t untaken = 0;  // of its output, by the asker
  std::int64_t untold = 0;   // of its input: taken, and the asker does not know
  boost::asio::posix::stream_descriptor input;
  std::deque<std::string> unwritten;
  std::size_t unwritten_bytes = 0;
  bool input_ends = false;
  std::string fault;
  Stream output;
  Stream errors;
  boost::asio::steady_timer trailing;
  std::optional<ExitStatus> status;

  // The other direction of a connection goes on.
  void close_input() {
    boost::system::error_code ignored;
    if (is_connection && input.is_open()) ::shutdown(input.native_handle(), SHUT_WR);
    input.close(ignored);
  }
};

ExecSessions::ExecSessions(boost::asio::io_context& io, ControllerLine& line)
    : io_(io), line_(line) {}
ExecSessions::~ExecSessions() = default;

void ExecSessions::refuse(const std::string& id, const std::string& why) {
  line_.send(ExecEnded{id, ExitStatus{127, 0}, why});
}

std::shared_ptr<ExecSessions::Session> ExecSessions::add(const ExecStart& request) {
  auto session = std::make_shared<Session>(io_);
  session->id = request.id;
  session->attempt = key_of(request);
  if (request.channel) {
    session->window = std::clamp(request.channel->window, least_window_bytes, most_window_bytes);
  }
  sessions_[request.id] = session;
  return session;
}

Result<pid_t> ExecSessions::start(const ExecStart& request, const Environment& environment,
                                  const std::string& directory, const Starter& starter) {
  const bool has_terminal = request.channel && request.channel->terminal;
  auto ends = has_terminal ? terminal_ends(*request.channel->terminal) : pipe_ends();
  if (!ends) return ends.error();
  if (request.argv.empty()) return Error{"no command was given"};
  const SpawnRequest spawned{
      request.argv,           environment, directory, ends->its_input.get(), ends->its_output.get(),
      ends->its_errors.get(), has_terminal};
  auto pid = starter ? starter(spawned) : spawn(spawned);
  if (!pid) return pid.error();
  const auto session = add(request);
  session->pid = *pid;
  session->has_terminal = has_terminal;
  session->input.assign(ends->input.release());
  session->output.pipe.assign(ends->output.release());
  read_more(session, session->output);
  if (!ends->errors) return *pid;
  session->errors.pipe.assign(ends->errors.release());
  read_more(session, session->errors);
  return *pid;
}

Status ExecSessions::connect(const ExecStart& request, const std::string& directory) {
  const std::string& name = request.channel->socket;
  auto socket = dial(name, directory);
  if (!socket) return socket.error();
  Fd half = another(*socket);
  if (!half) return system_error("connect to " + name);
  const auto session = add(request);
  session->is_connection = session->is_connecting = true;
  session->input.assign(half.release());
  session->output.pipe.assign(socket->release());
  session->trailing.expires_after(connect_limit);
  session->trailing.async_wait([this, session, name](const boost::system::error_code& error) {
    if (error || !session->is_connecting) return;
    session->fault = "could not connect to " + name + ": what listens there does not accept";
    finish(session);
  });
  session->input.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                            [this, session, name](const boost::system::error_code& error) {
                              if (!error && session->input.is_open()) connected(session, name);
                            });
  return Done{};
}

void ExecSessions::connected(const std::shared_ptr<Session>& session, const std::string& name) {
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(session->input.native_handle(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0) {
    const bool is_path = name.starts_with('/');
    session->fault =
        system_error("connect to " + (is_path ? name : "127.0.0.1:" + name), failure).message;
    return finish(session);
  }
  session->is_connecting = false;
  session->trailing.cancel();
  read_more(session, session->output);
  write_input(session);
}

bool ExecSessions::must_wait(const Session& session) const {
  const bool is_ahead = session.window > 0 && session.untaken >= session.window;
  return line_.is_open() && (is_ahead || !line_.has_room());
}

void ExecSessions::read_more(const std::shared_ptr<Session>& session, Stream& stream) {
  stream.is_waiting_for_room = must_wait(*session);
  if (stream.is_waiting_for_room) return;
  stream.pipe.async_read_some(
      boost::asio::buffer(stream.buffer),
      [this, session, &stream](const boost::system::error_code& error, std::size_t count) {
        if (count > 0) {
          session->untaken += static_cast<std::int64_t>(count);
          line_.send(ExecOutput{session->id, stream.is_stderr},
                     std::string_view(stream.buffer.data(), count));
        }
        if (!error) return read_more(session, stream);
        stream_over(session, stream, error);
      });
}

// A connection whose other side is gone takes no input either.
void ExecSessions::stream_over(const std::shared_ptr<Session>& session, Stream& stream,
                               const boost::system::error_code& error) {
  boost::system::error_code ignored;
  stream.pipe.close(ignored);
  if (session->is_connection && error == boost::asio::error::eof) {
    line_.send(ExecOutput{session->id, false});
  } else if (session->is_connection) {
    session->close_input();
  }
  finish_if_over(session);
}

void ExecSessions::resume_reading() {
  for (const auto& [id, session] : sessions_) read_on(session);
}

void ExecSessions::read_on(const std::shared_ptr<Session>& session) {
  for (Stream* stream : {&session->output, &session->errors}) {
    if (stream->is_waiting_for_room && line_.has_room()) read_more(session, *stream);
  }
}

void ExecSessions::handle(const ExecControl& control, std::string_view) {
  const auto found = sessions_.find(control.id);
  if (found == sessions_.end()) return;
  const auto& session = found->second;
  session->untaken -= std::clamp<std::int64_t>(control.taken, 0, session->untaken);
  if (session->has_terminal && session->input.is_open()) {
    resize_terminal(session->input.native_handle(), control.rows, control.columns);
  }
  read_on(session);
}

// Not each time, and before the asker stands still.
void ExecSessions::tell_taken(Session& session, std::size_t bytes) {
  session.unwritten_bytes -= std::min(session.unwritten_bytes, bytes);
  session.untold += static_cast<std::int64_t>(bytes);
  if (session.window == 0 || session.untold < session.window / 4) return;
  line_.send(ExecTaken{session.id, std::exchange(session.untold, 0)});
}

void ExecSessions::input(const std::string& id, std::string_view bytes) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || !found->second->input.is_open()) return;
  const auto& session = found->second;
  const bool is_idle = session->unwritten.empty() && !session->is_connecting;
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

// A terminal has no end of input: programs in it are told by what is typed.
void ExecSessions::write_input(const std::shared_ptr<Session>& session) {
  if (session->unwritten.empty()) {
    if (!session->input_ends || session->has_terminal) return;
    session->close_input();
    return finish_if_over(session);
  }
  boost::asio::async_write(session->input, boost::asio::buffer(session->unwritten.front()),
                           [this, session](const boost::system::error_code& error, std::size_t) {
                             tell_taken(*session, session->unwritten.front().size());
                             session->unwritten.pop_front();
                             if (!error) return write_input(session);
                             session->unwritten.clear();
                             session->close_input();
                             finish_if_over(session);
                           });
}

void ExecSessions::stop(const std::string& id) {
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) end(std::shared_ptr<Session>(found->second));
}

void ExecSessions::stop_all() {
  const auto all = sessions_;
  for (const auto& [id, session] : all) end(session);
}

void ExecSessions::end_connections(const AttemptKey& attempt) {
  const auto all = sessions_;
  for (const auto& [id, session] : all) {
    if (!session->is_connection || session->attempt != attempt) continue;
    session->fault = "the attempt is over";
    end(session);
  }
}

// What runs in a terminal is in groups of its own.
void ExecSessions::end(const std::shared_ptr<Session>& session) {
  session->window = 0;  // nobody takes any more
  if (session->is_connection) return finish(session);
  // Not reaped yet, so the number is still the command's, and its session's.
  if (session->status) return;
  if (session->has_terminal) return kill_session(session->pid);
  ::kill(-session->pid, SIGKILL);
}

bool ExecSessions::reaped(pid_t pid, int wait_status) {
  for (const auto& [id, session] : sessions_) {
    if (session->is_connection || session->pid != pid || session->status) continue;
    session->status = exit_status_of(wait_status);
    await_silence(session);
    finish_if_over(std::shared_ptr<Session>(session));
    return true;
  }
  return false;
}

// Silent is not who has to wait.
void ExecSessions::await_silence(const std::shared_ptr<Session>& session) {
  session->trailing.expires_after(trailing_output_limit);
  session->trailing.async_wait([this, held = session](const boost::system::error_code& error) {
    if (error) return;
    return must_wait(*held) ? await_silence(held) : finish(held);
  });
}

void ExecSessions::finish_if_over(const std::shared_ptr<Session>& session) {
  const bool is_silent = !session->output.pipe.is_open() && !session->errors.pipe.is_open();
  const bool is_over =
      session->is_connection ? !session->input.is_open() : session->status.has_value();
  if (is_over && is_silent) finish(session);
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
  const ExitStatus failed{session->fault.empty() ? 0 : 127, 0};
  line_.send(ExecEnded{session->id, session->status.value_or(failed), session->fault});
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

Result<TerminalEnds> open_terminal(const TerminalShape& shape) {
  TerminalEnds ends;
  ends.master = Fd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ends.master || ::grantpt(ends.master.get()) != 0 || ::unlockpt(ends.master.get()) != 0) {
    return system_error("open a terminal on this node");
  }
  resize_terminal(ends.master.get(), shape.rows, shape.columns);
  ends.slave = Fd(::ioctl(ends.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ends.slave) return system_error("open a terminal on this node");
  return ends;
}

void resize_terminal(int terminal, int rows, int columns) {
  const winsize size{cells(rows), cells(columns), 0, 0};
  if (rows > 0 && columns > 0) ::ioctl(terminal, TIOCSWINSZ, &size);
}

Result<Fd> dial(const std::string& name, const std::string& directory) {
  return name.starts_with('/') ? dial_path(name, directory) : dial_port(name);
}

Status complete(ExecStart& request, Environment& environment, const std::string& directory) {
  if (!request.channel) return Done{};
  if (request.channel->ssh) return become_sshd(request, environment, directory);
  if (!request.channel->terminal) return Done{};
  environment["TERM"] = terminal_name(request.channel->terminal->name);
  if (request.argv.empty()) become_login_shell(request, environment);
  return Done{};
}

}  // namespace muster
