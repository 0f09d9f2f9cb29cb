#include "launcher/os/bounded_command.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <thread>

#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/os/spawn.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// A killed program goes at once, unless the kernel holds it: then it is left behind.
constexpr Milliseconds reaping_limit{500};
constexpr std::size_t said_most = 300;

std::string words(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string content_of(const Fd& file) {
  std::string text;
  read_whole(file.get(), text);
  return text;
}

// Nothing: it has not ended by then.
std::optional<int> wait_until(pid_t child, Clock::time_point end) {
  Milliseconds pause{1};
  while (true) {
    int status = 0;
    const pid_t got = ::waitpid(child, &status, WNOHANG);
    if (got == child || (got < 0 && errno != EINTR)) return status;
    if (Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause + Milliseconds{1}, Milliseconds{20});
  }
}

std::string why_failed(int status, std::string said) {
  said = said.substr(0, said_most);
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (!said.empty()) return said;
  return WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status))
                             : "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Result<std::string> run_within(const std::vector<std::string>& argv, Milliseconds limit) {
  // Files in memory cannot block the way pipes do.
  const Fd output(::memfd_create("muster-output", MFD_CLOEXEC));
  const Fd errors(::memfd_create("muster-errors", MFD_CLOEXEC));
  if (!output || !errors) return Error{"cannot run '" + words(argv) + "': no file for its output"};
  const std::array inherited{Inherit{output.get(), 1}, Inherit{errors.get(), 2}};
  const auto child = spawn(argv, inherited);
  if (!child) return child.error();
  const auto status = wait_until(*child, Clock::now() + limit);
  if (!status) {
    ::kill(-*child, SIGKILL);
    wait_until(*child, Clock::now() + reaping_limit);
    return Error{"'" + words(argv) + "' gave no answer within " + std::to_string(limit.count()) +
                 " ms"};
  }
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return content_of(output);
  return Error{"'" + words(argv) + "' failed: " + why_failed(*status, content_of(errors))};
}

}  // namespace muster
