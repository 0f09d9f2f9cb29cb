#include "health/read/tool_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "scheduler/text/text.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// A killed one that hangs in a driver does not end; the process that waits for it would hang too.
constexpr std::chrono::milliseconds reaping_limit{500};
constexpr std::chrono::milliseconds between_exit_looks{5};
// What a tool started may hold its outputs, and go on, when it has ended.
constexpr std::chrono::milliseconds rest_limit{500};
// Of the kernels before 5.3 none says when a process ends.
constexpr std::chrono::milliseconds between_looks{100};

struct Pipe {
  int reading = -1;
  int writing = -1;
};

bool open_pipe(Pipe& made) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  made = {ends[0], ends[1]};
  return true;
}

void close_end(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

// Leads the group of the tool and of what that starts: its number is theirs until it is reaped.
// Ends them when this process dies, by whatever.
[[noreturn]] void guard(pid_t parent) {
  sigset_t parents_death;
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ::sigemptyset(&parents_death);
  ::sigaddset(&parents_death, SIGHUP);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGHUP);
  int got = 0;
  if (::getppid() == parent) ::sigwait(&parents_death, &got);
  ::kill(0, SIGKILL);
  ::_exit(0);
}

// In the child: only calls that may be made between fork and exec.
[[noreturn]] void become(char* const* argv, int output, int errors, int failure, pid_t parent,
                         pid_t group) {
  ::setpgid(0, group);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before that
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  ::execvp(argv[0], argv);
  const int why = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure, &why, sizeof why);
  ::_exit(127);
}

// One folder of PATH that may not be searched makes execvp say that the tool may not be run, though
// it is nowhere.
bool is_somewhere(const std::string& tool) {
  if (tool.find('/') != tool.npos) return ::access(tool.c_str(), F_OK) == 0 || errno == EACCES;
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "" : path;
  while (!folders.empty()) {
    const std::string_view folder = take_until(folders, ':');
    const std::string there = std::string(folder.empty() ? "." : folder) + "/" + tool;
    if (::access(there.c_str(), F_OK) == 0) return true;
  }
  return false;
}

}  // namespace

ToolProcess::ToolProcess(const std::vector<std::string>& argv, std::size_t output_max)
    : output_max_(output_max) {
  Pipe output;
  Pipe errors;
  Pipe failure;
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t parent = ::getpid();
  guard_ = ::fork();
  if (guard_ == 0) guard(parent);
  if (guard_ > 0) ::setpgid(guard_, guard_);
  const bool are_open = guard_ > 0 && open_pipe(output) && open_pipe(errors) && open_pipe(failure);
  pid_ = are_open ? ::fork() : -1;
  if (pid_ == 0)
    become(words.data(), output.writing, errors.writing, failure.writing, parent, guard_);
  if (pid_ < 0) run_.errors = std::string("cannot start it: ") + std::strerror(errno);
  close_end(output.writing);
  close_end(errors.writing);
  close_end(failure.writing);
  output_ = output.reading;
  errors_ = errors.reading;
  int why = 0;
  // Ends at once when the tool runs.
  if (pid_ > 0 && ::read(failure.reading, &why, sizeof why) == sizeof why) {
    run_.is_found = why != ENOENT && (why != EACCES || is_somewhere(argv.front()));
    run_.errors = argv.front() + ": " + std::strerror(why);
  }
  close_end(failure.reading);
}

ToolProcess::~ToolProcess() {
  kill();
  close_end(output_);
  close_end(errors_);
}

bool ToolProcess::is_over(Clock::time_point until) {
  return pid_ < 0 || has_ended(until);
}

ToolRun ToolProcess::wait(Clock::time_point until, std::chrono::milliseconds grace) {
  if (pid_ < 0 || has_ended(until)) return run_;
  if (grace.count() > 0) {
    ::kill(pid_, SIGTERM);
    has_ended(Clock::now() + grace);
  }
  run_.exit_code.reset();  // it did not end by itself
  kill();
  return run_;
}

bool ToolProcess::has_ended(Clock::time_point until) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  int status = 0;
  bool is_dead = false;
  // Outputs may be closed before the end.
  while (!(is_dead = ::waitpid(pid_, &status, WNOHANG) == pid_) && Clock::now() < until)
    take_output(handle, handle >= 0 ? until : std::min(until, Clock::now() + between_looks));
  if (handle >= 0) ::close(handle);
  if (!is_dead) return false;
  pid_ = -1;
  run_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const auto rest = Clock::now() + rest_limit;
  while ((output_ >= 0 || errors_ >= 0) && Clock::now() < rest) take_output(-1, rest);
  kill();
  return true;
}

// What there is now; false at the end.
bool ToolProcess::take(int fd, std::string& text) {
  std::array<char, 65536> space;
  const ssize_t count = ::read(fd, space.data(), space.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  const std::size_t read = static_cast<std::size_t>(count);
  const std::size_t kept = std::min(read, output_max_ - text.size());
  text.append(space.data(), kept);
  run_.is_cut = run_.is_cut || kept < read;
  return count > 0;
}

// As soon as there is some, or the process behind the handle has ended, or the moment came.
void ToolProcess::take_output(int handle, Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  // Negative descriptors are left out by poll.
  std::array<pollfd, 3> watched{pollfd{output_, POLLIN, 0}, pollfd{errors_, POLLIN, 0},
                                pollfd{handle, POLLIN, 0}};
  const int limit_ms = static_cast<int>(std::clamp(left, 0l, 60'000l));
  if (::poll(watched.data(), watched.size(), limit_ms) <= 0) return;
  if (watched[0].revents != 0 && !take(output_, run_.output)) close_end(output_);
  if (watched[1].revents != 0 && !take(errors_, run_.errors)) close_end(errors_);
}

void ToolProcess::kill() {
  if (guard_ > 0) ::kill(-guard_, SIGKILL);
  if (pid_ > 0) ::kill(-pid_, SIGKILL);  // it may have made a group of its own
  const auto limit = Clock::now() + reaping_limit;
  for (pid_t* dying : {&pid_, &guard_}) {
    while (*dying > 0 && ::waitpid(*dying, nullptr, WNOHANG) == 0 && Clock::now() < limit)
      std::this_thread::sleep_for(between_exit_looks);
    *dying = -1;
  }
}

}  // namespace muster
