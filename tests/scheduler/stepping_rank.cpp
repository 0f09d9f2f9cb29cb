// A rank for end-to-end tests and scripts/bench-hang: steps in time with its peers on this machine,
// as a training run does, without computing anything.
//
//   stepping_rank FILE STEP_MS [mute]
//
// FILE.<attempt> is shared by the ranks: who has done a step waits there for all. While FILE.slow
// exists a step takes ten times as long; when FILE.stop exists the ranks end with 0. `mute`: no
// heartbeat. RANK, WORLD_SIZE, MUSTER_ATTEMPT and MUSTER_HEARTBEAT are its environment.
#include <fcntl.h>
#include <sys/mman.h>
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

}  // namespace

int main(int words, char** word) {
  if (words < 3) return 2;
  const std::string file = word[1];
  const int step_ms = std::stoi(word[2]);
  const auto world = static_cast<std::size_t>(std::stoi(variable("WORLD_SIZE")));
  const auto rank = static_cast<std::size_t>(std::stoi(variable("RANK")));
  Counter* done = shared_counters(file + "." + variable("MUSTER_ATTEMPT"), world);
  if (done == nullptr || rank >= world) return 2;
  muster::HeartbeatFile heartbeat;
  if (words == 3) heartbeat = muster::HeartbeatFile(variable("MUSTER_HEARTBEAT"));
  for (std::int64_t step = 1; ::access((file + ".stop").c_str(), F_OK) != 0; ++step) {
    pause_ms(::access((file + ".slow").c_str(), F_OK) == 0 ? 10 * step_ms : step_ms);
    done[rank] = step;
    const auto is_late = [step](const Counter& one) { return one < step; };
    while (std::any_of(done, done + world, is_late)) {
      if (::access((file + ".stop").c_str(), F_OK) == 0) return 0;
      pause_ms(10);
    }
    heartbeat.beat(static_cast<std::uint64_t>(step));
  }
}
