#include "tools/sandbox/run_command.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "launcher/agent/node/spawn.h"
#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// Program output is small: files in memory cannot block the way pipes do.
struct Running {
  pid_t pid;
  Fd output;
  Fd errors;
};

Result<Running> start(const Command& command, const std::string& input) {
  Fd in = memory_file(input);
  Running running{0, memory_file(""), memory_file("")};
  const std::array inherited{Inherit{in.get(), 0}, Inherit{running.output.get(), 1},
                             Inherit{running.errors.get(), 2}};
  auto pid = spawn(command, inherited);
  if (!pid) return pid.error();
  running.pid = *pid;
  return running;
}

Status ended(const Command& command, const Running& running, int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Done{};
  std::string said = content_of(running.errors);
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (said.empty()) {
    said = WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status))
                               : "exit code " + std::to_string(WEXITSTATUS(status));
  }
  return Error{"'" + joined(command, " ") + "' failed: " + said};
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Result<std::string> run_command(const Command& command, const std::string& input) {
  auto running = start(command, input);
  if (!running) return running.error();
  const auto end = ended(command, *running, wait_for(running->pid));
  if (!end) return end.error();
  return content_of(running->output);
}

Status run_commands(const std::vector<Command>& commands) {
  const std::size_t width = 2 * std::max(1u, std::thread::hardware_concurrency());
  std::optional<Error> first;
  for (std::size_t begin = 0; begin < commands.size(); begin += width) {
    const std::size_t end = std::min(commands.size(), begin + width);
    std::vector<std::pair<std::size_t, Running>> wave;
    for (std::size_t i = begin; i < end; ++i) {
      auto running = start(commands[i], "");
      if (running) {
        wave.emplace_back(i, std::move(*running));
      } else if (!first) {
        first = running.error();
      }
    }
    for (const auto& [i, running] : wave) {
      const auto outcome = ended(commands[i], running, wait_for(running.pid));
      if (!outcome && !first) first = outcome.error();
    }
  }
  return first ? Status(*first) : Status(Done{});
}

bool has_program(const std::string& name) {
  const char* set = std::getenv("PATH");
  const std::string places = set == nullptr ? "" : std::string(set) + ":";
  return find_program(name, places + "/usr/sbin:/usr/bin:/sbin:/bin").has_value();
}

}  // namespace muster
