#include "launcher/agent/trash.h"

#include <malloc.h>

#include <filesystem>
#include <utility>

#include "launcher/agent/keeper/files.h"
#include "launcher/agent/keeper/layout.h"
#include "launcher/staging/materialize.h"

namespace muster {

namespace {

// What an attempt leaves is removed when the next one, which often follows at once, is under way;
// and what an earlier agent left, when whatever this one was started for is.
constexpr std::chrono::seconds removal_pause{5};
// A job's directory of a million files on a slow disk.
constexpr Milliseconds removal_limit{30 * 60 * 1000};

}  // namespace

Trash::Trash(const RunDirectory& run, ChildTasks& tasks, const AgentClock& clock,
             std::string agent_id)
    : run_(run), tasks_(tasks), clock_(clock), agent_id_(std::move(agent_id)) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(run.path, ignored)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(trash_prefix)) paths_.push_back(entry.path().string());
  }
  wait();
}

void Trash::wait() {
  remove_at_ = clock_.boot() + removal_pause;
}

void Trash::discard(const std::string& path) {
  if (!path_exists(path)) return;
  std::string name =
      run_.path + "/" + trash_prefix + agent_id_ + "." + std::to_string(next_name_++);
  std::error_code failed;
  std::filesystem::rename(path, name, failed);
  paths_.push_back(failed ? path : std::move(name));
  wait();
}

void Trash::poll() {
  if (paths_.empty() || clock_.boot() < remove_at_) return;
  ::malloc_trim(0);  // what many attempts held goes back to the node
  tasks_.run(
      [paths = std::exchange(paths_, {})](const ChildTasks::Tell&) {
        for (const std::string& path : paths) static_cast<void>(remove_tree(path));
        return std::string();
      },
      removal_limit, [](const Result<std::string>&) {});
}

}  // namespace muster
