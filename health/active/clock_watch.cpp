#include "health/active/clock_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace muster {

namespace {

constexpr std::chrono::seconds between_clock_looks{1};
// A killed one that hangs in the driver does not end; whoever waits for it would hang too.
constexpr std::chrono::milliseconds reaping_limit{500};
constexpr std::chrono::milliseconds between_reaps{5};

// What the child writes, whole: less than what a pipe takes at once.
struct Answer {
  bool is_failure = false;
  GpuClocks clocks;
  char why[200] = {};
};

void write_answer(int to, const Answer& answer) {
  if (::write(to, &answer, sizeof answer) != static_cast<ssize_t>(sizeof answer)) ::_exit(1);
}

[[noreturn]] void fail_in_child(int to, const std::string& why) {
  Answer answer;
  answer.is_failure = true;
  why.copy(answer.why, sizeof answer.why - 1);
  write_answer(to, answer);
  ::_exit(0);
}

[[noreturn]] void look_for_ever(int to) {
  auto library = NvmlLibrary::load();
  if (!library) fail_in_child(to, library.error().message);
  const auto reader = GpuClockReader::open(std::move(*library));
  if (!reader) fail_in_child(to, reader.error().message);
  auto next = std::chrono::steady_clock::now();
  for (;;) {
    for (const GpuClocks& clocks : reader->read()) write_answer(to, {false, clocks, {}});
    next += between_clock_looks;
    std::this_thread::sleep_until(next);
  }
}

// Nobody waits for the end of what it could print to.
void leave_outputs() {
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, fd);
}

}  // namespace

ClockWatch::ClockWatch() {
  int ends[2] = {-1, -1};
  const pid_t parent = ::getpid();
  if (::pipe2(ends, O_CLOEXEC) == 0) child_ = ::fork();
  if (child_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    leave_outputs();
    ::close(ends[0]);
    look_for_ever(ends[1]);
  }
  if (child_ < 0) error_ = std::string("cannot ask the driver: ") + std::strerror(errno);
  if (ends[1] >= 0) ::close(ends[1]);
  answers_ = ends[0];
  if (answers_ >= 0) ::fcntl(answers_, F_SETFL, O_NONBLOCK);
}

ClockWatch::~ClockWatch() {
  if (answers_ >= 0) ::close(answers_);
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  const auto limit = std::chrono::steady_clock::now() + reaping_limit;
  while (::waitpid(child_, nullptr, WNOHANG) == 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(between_reaps);
}

void ClockWatch::take() {
  Answer answer;
  while (answers_ >= 0 && error_.empty()) {
    const ssize_t size = ::read(answers_, &answer, sizeof answer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return;  // nothing new
    if (size != static_cast<ssize_t>(sizeof answer)) {
      error_ = "what asks the driver ended";
    } else if (answer.is_failure) {
      answer.why[sizeof answer.why - 1] = '\0';
      error_ = answer.why;
    } else {
      tally_.add(answer.clocks);
    }
  }
}

}  // namespace muster
