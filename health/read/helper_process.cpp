#include "health/read/helper_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace muster {

namespace {

constexpr int helper_socket = 3;
constexpr int helper_stream = 4;
// Above both, so that neither is written over before it is copied.
constexpr int first_free = 5;

struct SpawnPlan {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
};

// 0, or why not.
int spawn_helper(const std::vector<std::string>& argv, int socket, int stream, pid_t& pid) {
  SpawnPlan plan;
  ::posix_spawn_file_actions_adddup2(&plan.files, socket, helper_socket);
  ::posix_spawn_file_actions_adddup2(&plan.files, stream, helper_stream);
  // One that the kernel does not give up must hold no pipe that somebody reads to its end.
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&plan.files, standard, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&plan.files, helper_stream + 1);
  sigset_t all;
  sigset_t none;
  ::sigfillset(&all);
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&plan.attributes, &all);
  ::posix_spawnattr_setsigmask(&plan.attributes, &none);
  ::posix_spawnattr_setflags(&plan.attributes,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  return ::posix_spawn(&pid, arguments[0], &plan.files, &plan.attributes, arguments.data(),
                       environ);
}

}  // namespace

Result<HelperProcess> HelperProcess::start(const std::vector<std::string>& argv) {
  check(!argv.empty(), "a helper needs a program");
  const auto failed = [&argv](int error) {
    return Error{"cannot start the helper " + argv[0] + ": " + std::strerror(error)};
  };
  auto said = SharedStream::create();
  if (!said) return said.error();
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return failed(errno);
  HelperProcess helper(ends[0], std::move(*said));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const int theirs = ::fcntl(ends[1], F_DUPFD_CLOEXEC, first_free);
  const int stream = ::fcntl(helper.said_.descriptor(), F_DUPFD_CLOEXEC, first_free);
  const bool has_both = theirs >= 0 && stream >= 0;
  const int error = has_both ? spawn_helper(argv, theirs, stream, helper.pid_) : EMFILE;
  for (const int end : {ends[1], theirs, stream}) {
    if (end >= 0) ::close(end);
  }
  if (error != 0) return failed(error);
  return helper;
}

HelperProcess::HelperProcess(HelperProcess&& other) noexcept
    : pid_(other.pid_),
      socket_(std::exchange(other.socket_, -1)),
      said_(std::move(other.said_)),
      said_at_(other.said_at_),
      unsent_(std::move(other.unsent_)) {}

HelperProcess::~HelperProcess() {
  if (socket_ >= 0) ::close(socket_);
}

void HelperProcess::send_on() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    // Its death is heard, not felt.
    if (sent < 0 && errno != EAGAIN) unsent_.clear();
    if (sent <= 0) return;
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

bool HelperProcess::has_ended() const {
  std::array<char, 4096> wakes{};
  ssize_t size = 0;
  while ((size = ::recv(socket_, wakes.data(), wakes.size(), 0)) < 0 && errno == EINTR) continue;
  return size == 0 || (size < 0 && errno != EAGAIN);  // more of them is heard the next time
}

// Its end is looked for first, so that all it said before is heard.
HelperProcess::Heard HelperProcess::hear(std::string& bytes) {
  const bool is_end = has_ended();
  const std::size_t before = bytes.size();
  const auto taken = said_.take(bytes);
  if (!taken.is_sound) return Heard::nonsense;
  if (bytes.size() == before) return is_end ? Heard::end : Heard::nothing;
  said_at_ = taken.was_full ? SharedStream::Time::clock::now() : taken.written_at;
  return Heard::something;
}

std::optional<std::string> reaped(const WaitForProcess& wait, pid_t pid) {
  int status = 0;
  const pid_t found = wait(pid, &status, WNOHANG);
  if (found == 0 || (found < 0 && errno == EINTR)) return std::nullopt;
  if (found < 0) return "is gone";
  if (WIFSIGNALED(status)) return "died of signal " + std::to_string(WTERMSIG(status));
  return "ended with code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace muster
