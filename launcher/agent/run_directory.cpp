#include "launcher/agent/run_directory.h"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "launcher/agent/system_error_text.h"

namespace muster {

namespace {

// Connections waiting to be accepted: one controller and the remote starts of one mpirun.
constexpr int listen_backlog = 128;

std::string home_of_user() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') return home;
  const passwd* entry = ::getpwuid(::getuid());
  return entry != nullptr ? entry->pw_dir : "/tmp";
}

std::string absolute_home(const std::string& home) {
  if (home.empty() || home == "~") return home_of_user() + (home.empty() ? "/.muster" : "");
  if (home.starts_with("~/")) return home_of_user() + home.substr(1);
  if (home.front() == '/') return home;
  char* here = ::get_current_dir_name();
  std::string path = std::string(here != nullptr ? here : "") + "/" + home;
  std::free(here);
  return path;
}

// mkdir -p; every directory that is created is the user's alone.
Status make_directories(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return system_error("create the directory " + part);
    }
    if (end == std::string::npos) return Done{};
  }
}

sockaddr_un address_below(int directory_fd, const char* name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory_fd,
                name);
  return address;
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
  directory.home = absolute_home(home);
  directory.controller = controller;
  directory.node = node;
  directory.path = directory.home + "/run/" + controller + "/" + node.value;
  // Code, data and results of jobs are the user's alone too, wherever the home lies.
  for (const std::string& path : {directory.path, directory.home + "/jobs"}) {
    if (Status made = make_directories(path); !made) return made.error();
  }
  directory.fd = Fd(::open(directory.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.fd) return system_error("open the directory " + directory.path);
  struct stat facts {};
  if (::fstat(directory.fd.get(), &facts) != 0 || facts.st_uid != ::geteuid()) {
    return Error{directory.path + " belongs to another user: set another home"};
  }
  if (::fchmod(directory.fd.get(), 0700) != 0) return system_error("chmod " + directory.path);
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
  const sockaddr_un address = address_below(directory.fd.get(), "agent.sock");
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), listen_backlog) != 0) {
    return system_error("listen on " + directory.socket_path());
  }
  return listener;
}

Result<Fd> connect_to_agent(const std::string& socket_path) {
  const std::size_t slash = socket_path.rfind('/');
  if (slash == std::string::npos) return Error{"'" + socket_path + "' is not an absolute path"};
  const std::string parent = socket_path.substr(0, slash);
  const Fd directory(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return system_error("open the directory " + parent);
  Fd stream(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!stream) return system_error("create a socket");
  const sockaddr_un address = address_below(directory.get(), socket_path.c_str() + slash + 1);
  if (::connect(stream.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return system_error("connect to " + socket_path);
  }
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
