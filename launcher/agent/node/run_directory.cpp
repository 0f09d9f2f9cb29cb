#include "launcher/agent/node/run_directory.h"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"

namespace muster {

namespace {

// Connections waiting to be accepted: one controller and the remote starts of one mpirun.
constexpr int listen_backlog = 128;

Result<std::string> home_of_user() {
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home);
  const passwd* entry = ::getpwuid(::getuid());
  if (entry != nullptr && *entry->pw_dir == '/') return std::string(entry->pw_dir);
  return Error{"user " + std::to_string(::getuid()) +
               " has no home directory on this node: set remote_home of the compute target"};
}

Result<std::string> absolute_home(const std::string& home) {
  const bool is_of_user = home.empty() || home == "~" || home.starts_with("~/");
  if (is_of_user) {
    auto path = home_of_user();
    if (!path || home == "~") return path;
    return *path + (home.empty() ? "/.muster" : home.substr(1));
  }
  std::error_code unknown;
  return std::filesystem::absolute(home, unknown).string();
}

// The home may be the user's own directory, or hold others' data: they may look at it.
Status check_home(const std::string& home) {
  const bool is_there = ::access(home.c_str(), F_OK) == 0;
  Status right = Done{};
  if (is_there) {
    right = check_private_directory(home);
  } else if (const auto made = open_private_directory(home); !made) {
    right = made.error();
  }
  if (right) return right;
  return Error{right.error().message + ": name another remote_home"};
}

// Made by whoever comes first: a link to a whole file, which fails where there is one.
Result<std::string> secret_of(const RunDirectory& directory) {
  const std::string path = directory.path + "/secret";
  std::string known = text_of_file(path);
  if (!known.empty()) return known;
  std::uint64_t random[2];
  if (::getrandom(random, sizeof random, 0) != sizeof random) return system_error("get randomness");
  char text[40];
  std::snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64 "\n", random[0], random[1]);
  const std::string mine = path + "." + std::to_string(::getpid());
  const bool is_written = replace_file(mine, text, 0600, Durable::in_cache);
  const bool is_linked = is_written && (::link(mine.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const Error failure = system_error("write " + path);
  ::unlink(mine.c_str());
  known = text_of_file(path);
  if (!is_linked || known.empty()) return failure;
  return known;
}

constexpr int lock_pause_ms = 20;
// Leftovers are given 60 s to die.
constexpr int lock_limit_ms = 75'000;

}  // namespace

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() < 256 &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

Result<RunDirectory> open_run_directory(const std::string& home, const std::string& controller,
                                        const NodeId& node) {
  if (!is_plain_name(controller) || !is_plain_name(node.value)) {
    return Error{"the agent needs --controller and --node, each a plain name, got '" + controller +
                 "' and '" + node.value + "'"};
  }
  RunDirectory directory;
  auto path = absolute_home(home);
  if (!path) return path.error();
  directory.home = std::move(*path);
  directory.controller = controller;
  directory.node = node;
  directory.path = directory.home + "/run/" + controller + "/" + node.value;
  if (Status right = check_home(directory.home); !right) return right.error();
  // Code, data and results of jobs are the user's alone, wherever the home lies.
  for (const std::string& part : {directory.home + "/run", directory.home + "/jobs"}) {
    if (const auto opened = open_private_directory(part); !opened) return opened.error();
  }
  auto opened = open_private_directory(directory.path);
  if (!opened) return opened.error();
  directory.fd = std::move(*opened);
  auto secret = secret_of(directory);
  if (!secret) return secret.error();
  directory.secret = std::move(*secret);
  return directory;
}

Result<std::optional<Fd>> lock_run_directory(const RunDirectory& directory) {
  Fd lock(::openat(directory.fd.get(), "agent.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return system_error("create the lock file in " + directory.path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return std::optional(std::move(lock));
  if (errno == EWOULDBLOCK) return std::optional<Fd>{};
  return system_error("lock " + directory.path + "/agent.lock");
}

Result<Fd> listen_in(const RunDirectory& directory) {
  Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return system_error("create a socket");
  ::unlinkat(directory.fd.get(), "agent.sock", 0);
  const sockaddr_un address = unix_address(directory.fd, "agent.sock");
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), listen_backlog) != 0) {
    return system_error("listen on " + directory.socket_path());
  }
  return listener;
}

Result<Fd> connect_to_agent(const std::string& socket_path) {
  if (!socket_path.starts_with('/')) return Error{"'" + socket_path + "' is not an absolute path"};
  Fd stream = connect_unix(socket_path);
  if (!stream) return system_error("connect to " + socket_path);
  return stream;
}

Result<std::optional<Fd>> wait_for_agent_lock(const RunDirectory& run) {
  for (int waited_ms = 0;; waited_ms += lock_pause_ms) {
    auto lock = lock_run_directory(run);
    if (!lock || *lock || connect_to_agent(run.socket_path())) return lock;
    if (waited_ms > lock_limit_ms) {
      return Error{"another process holds " + run.path + "/agent.lock and does not answer"};
    }
    ::poll(nullptr, 0, lock_pause_ms);
  }
}

}  // namespace muster
