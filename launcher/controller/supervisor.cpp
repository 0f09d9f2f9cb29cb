#include "launcher/controller/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <iostream>

#include "launcher/os/child.h"
#include "launcher/os/read_file.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int start_did_fail = static_cast<int>(ExitCode::internal);

// What the process that was called is told beside `controller_serves`; the log says why.
constexpr char start_failed = 'F';

// A controller that is not our child is looked after so often.
constexpr Milliseconds orphan_interval{250};
// The controller's last words take a second, and a stopped one may be busy with its journal.
constexpr std::chrono::seconds stop_limit{30};
// Between taking its lock and saying so a supervisor makes two system calls.
constexpr std::chrono::seconds name_limit{1};

std::string errno_text() {
  return std::strerror(errno);
}

Milliseconds time_since(Clock::time_point begun) {
  return std::chrono::duration_cast<Milliseconds>(Clock::now() - begun);
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return "was killed by signal " + std::to_string(WTERMSIG(status));
  return "ended with " + std::to_string(WEXITSTATUS(status));
}

// The process that was called waits at the other end, if any, and ends as the start does.
void tell(Fd& starter, char word) {
  [[maybe_unused]] const bool told = !starter || write_all(starter.get(), {&word, 1});
  starter.reset();
}

class Supervisor {
 public:
  Supervisor(const ControllerOptions& options, const Fd& lock, Fd signals, Fd starter)
      : options_(options),
        lock_(lock),
        signals_(std::move(signals)),
        starter_(std::move(starter)) {}

  int run();

 private:
  bool takes_turn();
  int one_life();
  pid_t start(const Fd& line);
  void take_signals(pid_t child);
  bool pause(Milliseconds length);

  const ControllerOptions& options_;
  const Fd& lock_;
  Fd signals_;
  Fd starter_;
  bool is_told_to_end_ = false;
};

int Supervisor::run() {
  RestartPause pauses;
  while (takes_turn()) {
    const auto begun = Clock::now();
    const int status = one_life();
    const bool in_order = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (in_order || is_told_to_end_ || is_unlinked(lock_)) break;
    if (WIFEXITED(status) && WEXITSTATUS(status) == another_controller_serves) continue;
    if (starter_) {
      tell(starter_, start_failed);
      return start_did_fail;
    }
    const Milliseconds length = pauses.after(time_since(begun));
    open_log(options_.home.log(), false);
    log_warning("the controller " + how_it_ended(status) + "; it is started again in " +
                std::to_string(length.count()) + " ms");
    if (!pause(length)) break;
  }
  tell(starter_, controller_serves);
  return 0;
}

// False: there is nothing to do any more.
bool Supervisor::takes_turn() {
  for (bool has_waited = false;; has_waited = true) {
    const auto lock = take_lock_file(options_.home.lock());
    if (!lock || is_unlinked(lock_)) return false;
    if (*lock) return !has_waited || ::access(options_.home.socket().c_str(), F_OK) == 0;
    tell(starter_, controller_serves);
    if (!pause(orphan_interval)) return false;
  }
}

// From the start of a controller to its end, as waitpid tells it.
int Supervisor::one_life() {
  constexpr int never_lived = start_did_fail << 8;
  auto ends = make_pipe();
  if (!ends) return never_lived;
  Fd& line = ends->read_end;
  const pid_t child = start(ends->write_end);
  ends->write_end.reset();
  if (child < 0) return never_lived;
  while (true) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) return status;
    pollfd ready[] = {{signals_.get(), POLLIN, 0}, {line.get(), POLLIN, 0}};
    if (::poll(ready, line ? 2 : 1, -1) < 0) continue;
    if (line && ready[1].revents != 0) {
      char word = 0;
      if (::read(line.get(), &word, 1) == 1) tell(starter_, word);
      line.reset();
    }
    if (ready[0].revents != 0) take_signals(child);
  }
}

pid_t Supervisor::start(const Fd& line) {
  const std::string program = self_exe();
  const std::string number = std::to_string(line.get());
  const std::string idle_limit = std::to_string(options_.idle_limit_s);
  const pid_t child = ::fork();
  if (child != 0) return child;
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::fcntl(line.get(), F_SETFD, 0);
  ::execl(program.c_str(), "muster", "controller", "--supervised", number.c_str(), "--idle-limit",
          idle_limit.c_str(), nullptr);
  ::_exit(start_did_fail);
}

void Supervisor::take_signals(pid_t child) {
  signalfd_siginfo seen{};
  while (::read(signals_.get(), &seen, sizeof seen) == sizeof seen) {
    if (seen.ssi_signo == SIGCHLD) continue;
    is_told_to_end_ = true;
    if (child > 0) ::kill(child, SIGTERM);
  }
}

// False: told to end.
bool Supervisor::pause(Milliseconds length) {
  const auto begun = Clock::now();
  while (!is_told_to_end_ && time_since(begun) < length) {
    pollfd ready{signals_.get(), POLLIN, 0};
    const Milliseconds left = length - time_since(begun);
    if (::poll(&ready, 1, static_cast<int>(left.count())) > 0) take_signals(0);
  }
  return !is_told_to_end_;
}

[[noreturn]] void end_like_the_start(Fd line) {
  char word = 0;
  ssize_t got = 0;
  do {
    got = ::read(line.get(), &word, 1);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) log_error("the supervisor was killed while it started the controller");
  ::_exit(got == 1 && word == controller_serves ? 0 : start_did_fail);
}

// What the C library or a crash says goes to the log as well.
void leave_terminal(const Home& home) {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Fd log(::open(home.log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(log ? log.get() : null.get(), STDOUT_FILENO);
  ::dup2(log ? log.get() : null.get(), STDERR_FILENO);
  if (::chdir("/") != 0) ::_exit(start_did_fail);
}

// In the daemon: where to say how the start went.
Result<Fd> detach(const Home& home) {
  const auto failed = [] { return Error{"cannot start the controller: " + errno_text()}; };
  auto line = make_pipe();
  if (!line) return failed();
  const pid_t first = ::fork();
  if (first < 0) return failed();
  if (first > 0) {
    line->write_end.reset();
    end_like_the_start(std::move(line->read_end));
  }
  line->read_end.reset();
  ::setsid();
  if (const pid_t second = ::fork(); second != 0) ::_exit(second > 0 ? 0 : start_did_fail);
  leave_terminal(home);
  return std::move(line->write_end);
}

Fd signals_as_a_file() {
  sigset_t ours;
  ::sigemptyset(&ours);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&ours, signal);
  ::sigprocmask(SIG_BLOCK, &ours, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return Fd(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
}

int serve_as_daemon(const ControllerOptions& options, Fd starter) {
  const auto lock = take_lock_file(supervisor_lock(options.home));
  if (lock && *lock) {
    // For who wants to stop us: the file is only believed while it is locked.
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate((*lock)->get(), 0) == 0 && write_all((*lock)->get(), pid)) {
      return Supervisor(options, **lock, signals_as_a_file(), std::move(starter)).run();
    }
  }
  const bool is_served = lock && !*lock;  // by another supervisor
  if (!is_served) log_error(lock ? "cannot write: " + errno_text() : lock.error().message);
  tell(starter, is_served ? controller_serves : start_failed);
  return is_served ? 0 : start_did_fail;
}

// The process that the file names, if it has the file open: before its holder has written, it names
// an earlier one, whose number may be anybody's by now. 0: nobody is known yet.
pid_t holder_of(const std::filesystem::path& lock) {
  const std::string text = text_of_file(lock);
  pid_t pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  std::error_code failed;
  const std::filesystem::path open_files = "/proc/" + std::to_string(pid) + "/fd";
  for (std::filesystem::directory_iterator file(open_files, failed), end; !failed && file != end;
       file.increment(failed)) {
    std::error_code unknown;
    if (std::filesystem::equivalent(file->path(), lock, unknown)) return pid;
  }
  return 0;
}

// Whoever holds the lock is told to end.
Status end_supervisor(const std::filesystem::path& lock, pid_t& told) {
  const pid_t pid = holder_of(lock);
  if (pid == 0 || pid == told) return Done{};
  told = pid;
  if (::kill(pid, SIGTERM) == 0 || errno == ESRCH) return Done{};
  return Error{"cannot end the supervisor, process " + std::to_string(pid) + ": " + errno_text()};
}

Status wait_until_free(const std::filesystem::path& lock, bool is_of_supervisor) {
  const auto begun = Clock::now();
  pid_t told = 0;
  while (is_locked(lock)) {
    if (is_of_supervisor) {
      if (Status done = end_supervisor(lock, told); !done) return done;
      if (told == 0 && Clock::now() - begun > name_limit) {
        return Error{"cannot end the supervisor: who holds " + lock.string() +
                     " is not written in it"};
      }
    }
    if (Clock::now() - begun > stop_limit) {
      return Error{"it did not end within " + std::to_string(stop_limit.count()) + " s: its lock " +
                   lock.string() + " is held"};
    }
    ::poll(nullptr, 0, 10);
  }
  return Done{};
}

}  // namespace

int supervisor_main(const ControllerOptions& options) {
  const auto fail = [](const Error& why) {
    std::cerr << "muster: " << why.message << "\n";
    return start_did_fail;
  };
  if (auto ours = own_home(options.home); !ours) return fail(ours.error());
  open_log(options.home.log(), false);
  auto starter = detach(options.home);
  if (!starter) return fail(starter.error());
  return serve_as_daemon(options, std::move(*starter));
}

Result<bool> stop_supervised(const Home& home) {
  const bool is_supervised = is_locked(supervisor_lock(home));
  if (auto free = wait_until_free(supervisor_lock(home), true); !free) return free.error();
  if (auto free = wait_until_free(home.lock(), false); !free) return free.error();
  return is_supervised;
}

}  // namespace muster
