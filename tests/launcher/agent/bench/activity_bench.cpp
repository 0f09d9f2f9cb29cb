// What it costs an agent to watch its ranks, behind scripts/bench-hang: eight ranks with four
// processes each, looked at as often as an agent does. Prints `name value unit goal`.
#include <sys/wait.h>
#include <time.h>

#include <csignal>
#include <cstdio>
#include <vector>

#include "launcher/agent/node/spawn.h"
#include "launcher/agent/watch/activity.h"

using namespace muster;

namespace {

constexpr int ranks = 8;
constexpr int looks = 2000;
constexpr auto tick = std::chrono::milliseconds{500};

double processor_s() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace

int main() {
  std::vector<pid_t> roots;
  const std::string script = "sleep 1000 & sleep 1000 & sleep 1000 & wait";
  for (int i = 0; i < ranks; ++i) {
    const auto pid = spawn({{"sh", "-c", script}, {{"PATH", "/usr/bin:/bin"}}, "/", {}, 1, 2});
    if (pid) roots.push_back(*pid);
  }
  for (const pid_t root : roots) {
    while (process_tree(root, 10).size() < 4) {
    }
  }
  ActivityWatch watch;
  ActivityWatch::Moment now{};
  for (std::size_t i = 0; i < roots.size(); ++i) {
    watch.add(RankId{static_cast<std::int64_t>(i)}, roots[i], now);
  }
  const double before = processor_s();
  for (int i = 0; i < looks; ++i, now += tick) {
    watch.poll(now);
    watch.news(now);
  }
  const double seconds = looks * std::chrono::duration<double>(tick).count();
  const double cost = (processor_s() - before) / seconds;
  for (const pid_t root : roots) {
    for (const pid_t pid : process_tree(root, 10)) ::kill(pid, SIGKILL);
    ::waitpid(root, nullptr, 0);
  }
  std::printf("sampler_of_8_ranks_32_processes %.4f %%_of_a_core <=0.1\n", 100 * cost);
}
