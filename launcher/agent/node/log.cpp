#include "launcher/agent/node/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace muster {

namespace {

// Some thousand events: an agent says a few lines per attempt.
constexpr off_t log_limit_bytes = 1 << 20;

int log_directory = -1;

bool redirect_to_log() {
  const int log =
      ::openat(log_directory, "agent.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return false;
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::close(log);
  return true;
}

void rotate_when_full() {
  struct stat facts {};
  if (::fstat(STDERR_FILENO, &facts) != 0 || facts.st_size < log_limit_bytes) return;
  ::renameat(log_directory, "agent.log", log_directory, "agent.log.1");
  static_cast<void>(redirect_to_log());
}

}  // namespace

bool open_log(int run_directory_fd) {
  log_directory = run_directory_fd;
  return redirect_to_log();
}

void log_line(const std::string& sentence) {
  if (log_directory < 0) return;
  rotate_when_full();
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  char time[40];
  ::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ ", &parts);
  const std::string line = time + std::to_string(::getpid()) + " " + sentence + "\n";
  [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace muster
