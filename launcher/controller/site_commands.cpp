#include "launcher/controller/site_commands.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t lines_told = 10;
// Until then it is as if it went on; its output waits in a pipe of 64 KiB.
constexpr Milliseconds look_pause{50};

}  // namespace

struct SiteCommands::Running {
  pid_t pid = 0;
  Fd output;
  std::string text;
  Milliseconds limit{0};
  SteadyTime until;
  std::unique_ptr<Alarm> next_look;
  std::function<void(const CommandEnded&)> done;  // null: it was told

  void tell(ExitStatus status, std::string error) {
    const auto told = std::exchange(done, nullptr);
    if (told) told({status, std::move(error), last_utf8_lines(text, lines_told)});
  }
};

SiteCommands::SiteCommands(Timers& timers) : timers_(timers) {}

SiteCommands::~SiteCommands() {
  for (const auto& [number, running] : running_) ::kill(-running->pid, SIGKILL);
}

void SiteCommands::run(const std::vector<std::string>& argv, Milliseconds limit,
                       std::function<void(const CommandEnded&)> done) {
  auto started = start(argv);
  if (!started) {
    timers_.post([done = std::move(done), why = started.error().message] {
      done({{127, 0}, "its command: " + why, {}});
    });
    return;
  }
  const int number = next_++;
  Running& running = *(running_[number] = std::move(*started));
  running.limit = limit;
  running.until = timers_.now() + limit;
  running.done = std::move(done);
  running.next_look = timers_.after(look_pause, [this, number] { look(number); });
}

Result<std::unique_ptr<SiteCommands::Running>> SiteCommands::start(
    const std::vector<std::string>& argv) {
  auto pipe = tail_pipe();
  if (!pipe) return Error{std::string("cannot make a pipe: ") + std::strerror(errno)};
  auto running = std::make_unique<Running>();
  running->output = std::move(pipe->read_end);
  const int write_end = pipe->write_end.get();
  const std::array inherited{Inherit{write_end, 1}, Inherit{write_end, 2}};
  const auto child = spawn(argv, inherited);
  if (!child) return child.error();
  running->pid = *child;
  return running;
}

// What a command leaves in the background may keep its output open, and is not waited for.
void SiteCommands::look(int number) {
  Running& running = *running_.at(number);
  int wait_status = 0;
  const pid_t ended = ::waitpid(running.pid, &wait_status, WNOHANG);
  read_tail(running.output.get(), running.text);
  if (ended == 0) {
    end_late(running);
    running.next_look = timers_.after(look_pause, [this, number] { look(number); });
    return;
  }
  const std::unique_ptr<Running> over = std::move(running_.at(number));
  running_.erase(number);
  if (ended < 0) return over->tell({127, 0}, "its command: its exit status is lost");
  over->tell(exit_status_of(wait_status), "");
}

void SiteCommands::end_late(Running& running) {
  if (timers_.now() < running.until || !running.done) return;
  ::kill(-running.pid, SIGKILL);
  running.tell({0, SIGKILL}, "its command did not end within " +
                                 std::to_string(running.limit.count() / 1000) + " s");
}

}  // namespace muster
