#include "launcher/os/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "launcher/os/read_file.h"
#include "scheduler/text/text.h"

extern char** environ;

namespace muster {

namespace {

// Frees the C structs whatever happens between.
struct SpawnPlan {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  SpawnPlan() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

void reset_signals(posix_spawnattr_t& attributes) {
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  // An own session: Ctrl-C in the terminal is for muster alone, and the ssh of a jump host, which
  // knows nothing of our BatchMode, has no terminal to ask questions on.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
}

void map_files(posix_spawn_file_actions_t& files, std::span<const Inherit> inherited) {
  for (int standard = 0; standard <= 2; ++standard) {
    const bool named = std::any_of(inherited.begin(), inherited.end(),
                                   [&](const Inherit& each) { return each.theirs == standard; });
    if (!named) posix_spawn_file_actions_addopen(&files, standard, "/dev/null", O_RDWR, 0);
  }
  for (const Inherit& each : inherited) {
    posix_spawn_file_actions_adddup2(&files, each.ours, each.theirs);
  }
}

using Clock = std::chrono::steady_clock;

// A killed program goes at once, unless the kernel holds it: then it is left behind.
constexpr Milliseconds reaping_limit{500};
constexpr std::size_t said_most = 300;

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

constexpr std::size_t bytes_kept = 8192;
constexpr int reads_at_once = 16;

}  // namespace

Result<pid_t> spawn(std::span<const std::string> argv, std::span<const Inherit> inherited) {
  check(!argv.empty(), "spawn: a command has at least one word");
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  SpawnPlan plan;
  reset_signals(plan.attributes);
  map_files(plan.files, inherited);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, words[0], &plan.files, &plan.attributes, words.data(), environ);
  if (error != 0) return Error{"cannot start " + argv[0] + ": " + std::strerror(error)};
  return child;
}

Result<std::string> run_within(const std::vector<std::string>& argv, Milliseconds limit,
                               std::string_view input) {
  const std::string words = joined(argv, " ");
  const Fd output = memory_file(), errors = memory_file(), given = memory_file(input);
  if (!output || !errors || !given) {
    return Error{"cannot run '" + words + "': no file for its output"};
  }
  const std::array inherited{Inherit{given.get(), 0}, Inherit{output.get(), 1},
                             Inherit{errors.get(), 2}};
  const auto child = spawn(argv, inherited);
  if (!child) return child.error();
  const auto status = wait_until(*child, Clock::now() + limit);
  if (!status) {
    ::kill(-*child, SIGKILL);
    wait_until(*child, Clock::now() + reaping_limit);
    return Error{"'" + words + "' gave no answer within " + std::to_string(limit.count()) + " ms"};
  }
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return content_of(output);
  return Error{"'" + words + "' failed: " + why_failed(*status, content_of(errors))};
}

std::optional<int> signal_number(const std::string& name) {
  const std::string short_name = name.starts_with("SIG") ? name.substr(3) : name;
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* known = ::sigabbrev_np(signal);
    if (known != nullptr && short_name == known) return signal;
    if (short_name == std::to_string(signal)) return signal;
  }
  return {};
}

std::optional<PipeEnds> tail_pipe() {
  auto pipe = make_pipe();
  if (pipe) ::fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

void read_tail(int from, std::string& text) {
  std::array<char, 4096> buffer;
  for (int i = 0; i < reads_at_once; ++i) {
    const ssize_t got = ::read(from, buffer.data(), buffer.size());
    if (got <= 0) return;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > 2 * bytes_kept) text.erase(0, text.size() - bytes_kept);
  }
}

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string self_exe() {
  std::error_code failed;
  const fs::path name = fs::read_symlink("/proc/self/exe", failed);
  if (!failed && fs::equivalent(name, "/proc/self/exe", failed) && !failed) return name.string();
  return "/proc/" + std::to_string(::getpid()) + "/exe";
}

ExitStatus exit_status_of(int wait_status) {
  ExitStatus status;
  if (WIFSIGNALED(wait_status)) {
    status.signal = WTERMSIG(wait_status);
    status.core_dumped = WCOREDUMP(wait_status);
  } else {
    status.code = WEXITSTATUS(wait_status);
  }
  return status;
}

}  // namespace muster
