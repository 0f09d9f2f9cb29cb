// A rank for end-to-end tests and scripts/bench-hang: steps in time with its peers on this machine,
// as a training run does, without computing anything.
//
//   stepping_rank FILE STEP_MS [mute]
//
// FILE.<attempt> is shared by the ranks: who has done a step waits there for all. While FILE.slow
// exists a step takes ten times as long; when FILE.stop exists the ranks end with 0. A rank sleeps
// while FILE.asleep.<rank> exists, and the kernel holds it (state D) while FILE.held.<rank> is a
// pipe that nobody opens. `mute`: no heartbeat. RANK, WORLD_SIZE, MUSTER_ATTEMPT and
// MUSTER_HEARTBEAT are its environment.
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "runtime/protocol/heartbeat.h"

namespace {

using Counter = std::atomic<std::int64_t>;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "0" : value;
}

Counter* shared_counters(const std::string& path, std::size_t count) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const std::size_t bytes = count * sizeof(Counter);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Counter*>(memory);
}

void pause_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds{ms});
}

bool exists(const std::string& file) {
  return ::access(file.c_str(), F_OK) == 0;
}

// A parent is held until its child has memory of its own: this one opens a pipe before that.
void be_held_until_written(const std::string& pipe) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, pipe.c_str(), O_RDONLY, 0);
  char program[] = "/bin/true";
  char* const words[] = {program, nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, program, &actions, nullptr, words, environ) == 0) {
    ::waitpid(child, nullptr, 0);
  }
  ::posix_spawn_file_actions_destroy(&actions);
}

}  // namespace

int main(int words, char** word) {
  if (words < 3) return 2;
  const std::string file = word[1];
  const int step_ms = std::stoi(word[2]);
  const auto world = static_cast<std::size_t>(std::stoi(variable("WORLD_SIZE")));
  const auto rank = static_cast<std::size_t>(std::stoi(variable("RANK")));
  Counter* done = shared_counters(file + "." + variable("MUSTER_ATTEMPT"), world);
  if (done == nullptr || rank >= world) return 2;
  const std::string asleep = file + ".asleep." + std::to_string(rank);
  const std::string held = file + ".held." + std::to_string(rank);
  muster::HeartbeatFile heartbeat(words == 3 ? variable("MUSTER_HEARTBEAT") : "");
  for (std::int64_t step = 1; !exists(file + ".stop"); ++step) {
    pause_ms(exists(file + ".slow") ? 10 * step_ms : step_ms);
    while (exists(asleep)) pause_ms(10'000);
    if (exists(held)) be_held_until_written(held);
    done[rank] = step;
    const auto is_late = [step](const Counter& one) { return one < step; };
    while (std::any_of(done, done + world, is_late)) {
      if (exists(file + ".stop")) return 0;
      pause_ms(10);
    }
    heartbeat.beat(static_cast<std::uint64_t>(step));
  }
}
