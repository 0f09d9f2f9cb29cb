#include "launcher/agent/watch/checkpoint.h"

#include <sys/stat.h>

#include <cstdlib>

#include "launcher/agent/watch/checkpoint_probe.h"

namespace muster {

namespace {

// A checkpoint is news within a second; a look costs one stat when nothing changed, and a fork
// unless the directory is near.
constexpr std::chrono::seconds news_look_interval{1};
// A look that takes longer waits for a file system that hangs; another is tried then.
constexpr Milliseconds news_look_limit{20000};

std::string time_of_change(const std::string& directory) {
  struct stat facts {};
  if (::stat(directory.c_str(), &facts) != 0) return "absent";
  return std::to_string(facts.st_mtim.tv_sec) + "." + std::to_string(facts.st_mtim.tv_nsec);
}

// "<time of change>" or "<time of change>\n<step>\n<directory>"; empty: nothing changed.
std::string look(const std::string& directory, const std::string& seen_change) {
  const std::string change = time_of_change(directory);
  if (change == seen_change) return {};
  const auto newest = probe_checkpoints(directory).newest;
  if (!newest) return change;
  return change + "\n" + std::to_string(newest->step) + "\n" + newest->directory;
}

}  // namespace

CheckpointWatch::CheckpointWatch(ChildTasks& tasks, std::string directory, bool is_near,
                                 Found found)
    : tasks_(tasks),
      directory_(std::move(directory)),
      is_near_(is_near),
      facts_(std::make_shared<Facts>()) {
  facts_->found = std::move(found);
}

void CheckpointWatch::poll(Clock::time_point now) {
  if (!next_look_) next_look_ = now + news_look_interval;  // its ranks are just being started
  if (now < *next_look_ || facts_->is_looking) return;
  next_look_ = now + news_look_interval;
  if (is_near_) return facts_->take(look(directory_, facts_->seen_change));
  facts_->is_looking = true;
  tasks_.run([directory = directory_, seen = facts_->seen_change](
                 const ChildTasks::Tell&) { return look(directory, seen); },
             news_look_limit,
             [facts = facts_](const Result<std::string>& answer) {
               facts->is_looking = false;
               if (answer) facts->take(*answer);
             });
}

void CheckpointWatch::Facts::take(const std::string& answer) {
  if (answer.empty()) return;
  const std::size_t first = answer.find('\n');
  seen_change = answer.substr(0, first);
  if (first == std::string::npos) return;
  const std::size_t second = answer.find('\n', first + 1);
  CheckpointRef ref{std::atoll(answer.c_str() + first + 1), answer.substr(second + 1)};
  if (newest && newest->directory == ref.directory) return;
  newest = ref;
  found(ref);
}

}  // namespace muster
