#include "launcher/os/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

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

void kill_and_reap(pid_t child) {
  ::kill(-child, SIGKILL);  // it leads a session: its ProxyCommand goes, too
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace muster
