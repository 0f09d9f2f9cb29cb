// A service beside the ranks, under a process of its own: starts the program, says in a file what
// became of it, passes on connections where the program knows no Unix socket. The agent starts it;
// it ends with the attempt, and its program with it.
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "launcher/agent/exec/sessions.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/os/child.h"
#include "launcher/os/read_file.h"
#include "runtime/protocol/keyed_hash.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// A word of the command that begins with `@` is filled in.
struct ServiceProgram {
  std::string_view type;
  const char* token_name;  // the variable in which it takes a password
  const char* command;
  const char* package;
};
constexpr ServiceProgram programs[] = {
    {"custom", "MUSTER_SERVICE_TOKEN", "bash -c @command", "install bash"},
    {"jupyter_lab", "JUPYTER_TOKEN",
     "jupyter lab --no-browser --allow-root --ServerApp.sock=@socket --KernelManager.transport=ipc",
     "pip install jupyterlab"},
    {"vs_code", "PASSWORD", "code-server --auth password --socket-mode 600 --socket @socket .",
     "install code-server (https://coder.com), or use `muster ssh-config`"},
    {"tensor_board", nullptr, "tensorboard --host 127.0.0.1 --port @port --logdir @logs",
     "pip install tensorboard"}};

constexpr std::int64_t log_limit = 64 << 20;

struct RunningService {
  const ServiceSpec& spec;
  std::string path;    // of its files, without what tells them apart
  std::string socket;  // a short name of one: good for its children, while this process lives
  std::string port{};  // of this network; empty: it makes that socket itself
  nlohmann::json facts{};
  Fd printed{};  // a pipe; until nobody writes to it any more
  std::int64_t room = log_limit;
  std::string tail{};
};

int say(RunningService& service, const char* state, const std::string& note) {
  service.facts["state"] = state;
  if (!note.empty()) service.facts["note"] = note;
  using Handler = nlohmann::json::error_handler_t;
  const std::string text = service.facts.dump(-1, ' ', true, Handler::replace) + "\n";
  return replace_file(service.path + ".json", text, 0600, Durable::in_cache) ? 0 : 1;
}

// To the log, our standard output, up to its limit. What comes then is read all the same: the
// program goes on. Where nobody writes any more this only waits.
void pass_output(RunningService& service, int patience_ms) {
  pollfd wanted{service.printed.get(), POLLIN, 0};
  if (::poll(&wanted, 1, patience_ms) <= 0) return;
  char bytes[65536];  // a pipe holds no more
  const ssize_t got = ::read(wanted.fd, bytes, sizeof bytes);
  if (got <= 0) return service.printed.reset();
  const std::string_view text(bytes, static_cast<std::size_t>(got));
  service.tail += text;
  service.tail.erase(0, service.tail.size() - std::min(service.tail.size(), std::size_t{4096}));
  if (service.room < 0) return;
  write_all(STDOUT_FILENO, text.substr(0, static_cast<std::size_t>(service.room)));
  service.room -= got;
  if (service.room < 0)
    write_all(STDOUT_FILENO, "\nmuster: the log is full: no more than 64 MiB are kept\n");
}

std::string end_note(const RunningService& service, const ExitStatus& end) {
  std::string note = "with code " + std::to_string(end.signal != 0 ? 128 + end.signal : end.code);
  const std::string token = service.facts.value("token", "\n");
  for (const std::string& last : last_utf8_lines(service.tail, 1)) {
    const std::string line = without_controls(replaced(last, token, "TOKEN"));
    note += ": " + shortened(joined(words_in(line), " "), 200);
  }
  return note + "; log: " + service.path + ".log";
}

// This process goes into a network where only its children are.
bool leave_network() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback{.ifr_ifrn = {"lo"}, .ifr_ifru = {}};
  loopback.ifr_flags = IFF_UP;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &loopback) == 0;
}

// What works only half cannot be taken back: another process tries it before.
bool has_own_network() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(leave_network() ? 0 : 1);
  int status = 1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0 && leave_network();
}

// Each in a process: one that stands still holds no other up. The controller limits how many a job
// has, and no other user may connect.
void pass_connections(int listener, const std::string& port) {
  if (::fork() != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGTERM, SIG_DFL);
  ::signal(SIGCHLD, SIG_IGN);
  while (true) {
    const Fd peer(::accept(listener, nullptr, nullptr));
    if (!peer) ::usleep(10'000);  // no descriptor is free
    if (!peer || ::fork() != 0) continue;
    ::dup2(peer.get(), STDIN_FILENO);
    ::dup2(peer.get(), STDOUT_FILENO);
    const auto there = dial(port, "");
    ::_exit(there ? copy_both_ways(there->get()) : 1);
  }
}

// Of a program without a password.
bool hide_port(const std::string& socket, const std::string& port) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket.copy(address.sun_path, sizeof address.sun_path - 1);
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  const bool is_hidden = ::bind(listener.get(), name, sizeof address) == 0 &&
                         ::listen(listener.get(), SOMAXCONN) == 0 && has_own_network();
  if (is_hidden) pass_connections(listener.get(), port);
  return is_hidden;
}

bool listens(const RunningService& service) {
  if (service.port.empty()) return path_exists(service.path + ".sock");
  const auto there = dial(service.port, "");
  if (!there) return false;
  pollfd wanted{there->get(), POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  return ::poll(&wanted, 1, 100) == 1 &&
         ::getsockopt(wanted.fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

// The words of the command, for this service.
std::vector<std::string> words_of(const char* command, const RunningService& service, int port) {
  std::vector<std::string> filled;
  for (const std::string_view each : words_in(command)) {
    std::string word(each.substr(0, each.find('@')));
    const std::string_view name = each.substr(word.size());
    if (name == "@socket") word += service.socket;
    if (name == "@port") word += std::to_string(port);
    if (name == "@logs") word += service.spec.log_dir.empty() ? "." : service.spec.log_dir;
    if (name == "@command") word += service.spec.command;
    filled.push_back(word);
  }
  return filled;
}

Result<pid_t> begin(RunningService& service) {
  const ServiceSpec& spec = service.spec;
  const auto* const found = std::ranges::find(programs, spec.type, &ServiceProgram::type);
  if (found == std::end(programs)) return Error{"its type is unknown on this node"};
  const int port = spec.port.value_or(6006);
  std::string bytes(24, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != 24) return system_error("get randomness");
  SpawnRequest request;
  request.argv = words_of(found->command, service, port);
  request.environment = own_environment();
  request.environment["MUSTER_SERVICE_SOCKET"] = service.socket;
  // Sockets of Jupyter's kernels, whose output every user of the node could read at a port; tokens.
  request.environment["JUPYTER_RUNTIME_DIR"] = service.socket.substr(0, service.socket.rfind('/'));
  request.directory = ".";
  const bool has_token = found->token_name != nullptr;
  if (has_token) service.facts["token"] = request.environment[found->token_name] = hex_text(bytes);
  const bool is_open = !has_token && !hide_port(service.socket, std::to_string(port));
  if (is_open) service.facts["note"] = "other users of the node can read it: no own network there";
  const bool has_port = spec.type == "custom" && spec.port;
  if (!has_token || has_port) service.port = std::to_string(port);
  if (is_open || has_port) {
    service.facts["port"] = port;
  } else {
    service.facts["socket"] = service.path + ".sock";
  }
  auto ends = make_pipe();
  if (!ends) return system_error("make a pipe");
  request.output = request.errors = ends->write_end.get();
  service.printed = std::move(ends->read_end);
  auto pid = spawn(request);
  if (!pid && request.argv.front() == "bash") {  // not in every image
    request.argv.front() = "sh";
    pid = spawn(request);
  }
  return pid ? pid : Error{pid.error().message + "; " + found->package};
}

}  // namespace

int agent_service(const std::vector<std::string>& words) {
  AttemptLayout layout;
  if (words.size() == 2) layout.spool = words[0];
  const auto start = load_start(layout);
  if (!start || !start->services.contains(words[1])) return 2;
  ::signal(SIGTERM, SIG_IGN);  // of the attempt: the program has it too, and how it ends is told
  const std::string directory = services_directory(layout);
  const Fd held(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string alive =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(held.get());
  RunningService service{start->services.at(words[1]), directory + "/" + words[1],
                         alive + "/" + words[1] + ".sock"};
  // Leads to the directory while this process lives: who reads "running" sees whether that holds.
  static_cast<void>(::symlink(alive.c_str(), (service.path + ".held").c_str()));
  service.facts["name"] = words[1];
  if (service.spec.type == "custom" && service.spec.command.empty()) {
    service.facts["port"] = service.spec.port.value_or(0);
    return say(service, "unknown", "the job itself listens there, or not");
  }
  const auto pid = begin(service);
  if (!pid) return say(service, "missing", pid.error().message);
  bool is_reached = false;
  say(service, "starting", "");
  int status = 0;
  pid_t ended = 0;
  while (ended == 0 || (ended < 0 && errno == EINTR)) {
    const bool waits = service.printed || !is_reached;
    if (waits) pass_output(service, is_reached ? 1000 : 100);
    if (!is_reached && listens(service)) {
      is_reached = true;
      say(service, "running", "");
    }
    ended = ::waitpid(*pid, &status, waits ? WNOHANG : 0);
  }
  if (service.printed) pass_output(service, 0);
  const int told = say(service, "ended", end_note(service, exit_status_of(status)));
  while (service.printed) pass_output(service, -1);  // of what it left behind
  return told;
}

}  // namespace muster
