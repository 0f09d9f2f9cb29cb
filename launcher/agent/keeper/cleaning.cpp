#include "launcher/agent/keeper/cleaning.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <set>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/node/log.h"
#include "launcher/staging/blob_store.h"
#include "launcher/staging/materialize.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

// What starts the agent comes first. Far more often than anything may be removed for want of use.
constexpr std::chrono::minutes first_pause{1};
constexpr std::chrono::hours pause_between{6};
static_assert(3 * pause_between < days(1));
// A home of a million small files on a slow disk.
constexpr Milliseconds cleaning_limit{30 * 60 * 1000};

// A file, whatever it is called where.
using FileId = std::pair<dev_t, ino_t>;

FileId id_of(const struct stat& facts) {
  return {facts.st_dev, facts.st_ino};
}

// Of the programs that run on this host, as far as they are the user's.
std::set<FileId> running_programs() {
  std::set<FileId> programs;
  std::error_code failed;
  for (const auto& process : fs::directory_iterator("/proc", failed)) {
    struct stat facts {};
    if (::stat((process.path() / "exe").c_str(), &facts) == 0) programs.insert(id_of(facts));
  }
  return programs;
}

// Nobody else's, and no link to elsewhere.
bool is_own_directory(const fs::path& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == ::geteuid();
}

Removed clean_binaries(const NodeHome& node, std::time_t unused_since) {
  Removed removed{"builds of muster that nobody uses", 0, 0};
  const fs::path folder = node.home + "/bin";
  if (!is_own_directory(folder)) return removed;
  const std::set<FileId> running = running_programs();
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string path = entry.path().string();
    struct stat facts {};
    const bool is_build = entry.path().filename().string().starts_with("muster-") &&
                          ::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
    if (!is_build || facts.st_mtim.tv_sec >= unused_since) continue;
    if (running.contains(id_of(facts))) continue;
    if (::unlink(path.c_str()) != 0) continue;
    removed.count += 1;
    removed.bytes += facts.st_size;
  }
  return removed;
}

// The lock says that an agent, or a keeper that cleans up, is there on this host; the mark that one
// was on any host.
Fd lock_of_abandoned(const fs::path& run, std::time_t unused_since) {
  struct stat facts {};
  const std::string path = (run / "agent.lock").string();
  Fd lock(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  const bool is_old =
      lock && ::fstat(lock.get(), &facts) == 0 && facts.st_mtim.tv_sec < unused_since;
  return is_old && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(lock) : Fd();
}

// Output of ranks that their controller has not fetched.
bool holds_output(const fs::path& run) {
  std::error_code failed;
  return fs::exists(run / "attempts", failed) && !fs::is_empty(run / "attempts", failed);
}

// Renamed first: an agent that starts at this moment makes a new one.
bool remove_run(const fs::path& run) {
  const fs::path trash = run.parent_path() / (std::string(trash_prefix) + run.filename().string());
  std::error_code failed;
  fs::rename(run, trash, failed);
  return !failed && remove_tree(trash);
}

Removed clean_runs(const NodeHome& node, std::time_t unused_since) {
  Removed removed{"folders of agents whose controller has not come back", 0, 0};
  if (!is_own_directory(node.home + "/run")) return removed;
  std::error_code failed;
  for (const auto& controller : fs::directory_iterator(node.home + "/run", failed)) {
    if (!is_own_directory(controller.path())) continue;
    std::error_code controller_failed;
    for (const auto& run : fs::directory_iterator(controller.path(), controller_failed)) {
      if (run.path() == node.own_run || !is_own_directory(run.path())) continue;
      if (run.path().filename().string().starts_with(trash_prefix)) {  // a cleaning was killed
        static_cast<void>(remove_tree(run.path()));
        continue;
      }
      const Fd lock = lock_of_abandoned(run.path(), unused_since);
      if (!lock || holds_output(run.path())) continue;
      if (remove_run(run.path())) removed.count += 1;
    }
    ::rmdir(controller.path().c_str());
  }
  return removed;
}

// Beside a store of jobs they are what its jobs are made of, and its controller's to remove.
Removed clean_blobs(const NodeHome& node, std::time_t unused_since) {
  std::error_code unknown;
  if (fs::exists(node.home + "/muster.db", unknown) || unknown) return {};
  if (!is_own_directory(node.home + "/blobs")) return {};
  const BlobSweep sweep{[](const std::string&) { return false; }, unused_since, false};
  auto removed = sweep_blobs(node.home + "/blobs", sweep);
  return removed ? *removed : Removed{};
}

}  // namespace

std::vector<Removed> clean_node_home(const NodeHome& node, const RetentionLimits& keep, Time now) {
  std::vector<Removed> all;
  const auto clean = [&](const RetentionLimits::Keep& limit, auto what) {
    if (!limit) return;
    Removed removed = what(node, static_cast<std::time_t>(to_ms(now - *limit) / 1000));
    if (removed.count > 0) all.push_back(std::move(removed));
  };
  clean(keep.binaries, clean_binaries);
  clean(keep.run_folders, clean_runs);
  clean(keep.blobs, clean_blobs);
  return all;
}

NodeCleaning::NodeCleaning(NodeHome node, ChildTasks& tasks, BootTime now)
    : node_(std::move(node)), tasks_(tasks), due_(now + first_pause) {
  mark_used();
}

void NodeCleaning::poll(BootTime now) {
  if (now < due_) return;
  due_ = now + pause_between;
  mark_used();
  tasks_.run(
      [node = node_, keep = retention_](const ChildTasks::Tell&) {
        std::string text;
        for (const Removed& removed : clean_node_home(node, keep, wall_clock_now())) {
          text += "removed " + std::to_string(removed.count) + " " + removed.what + "; ";
        }
        return text;
      },
      cleaning_limit,
      [](const Result<std::string>& text) {
        if (!text) log_line("cleaning its home failed: " + text.error().message);
        else if (!text->empty()) log_line("cleaned its home: " + *text);
      });
}

void NodeCleaning::mark_used() const {
  const std::array<timespec, 2> times{timespec{0, UTIME_NOW}, timespec{0, UTIME_NOW}};
  const auto mark = [&](const std::string& path) {
    ::utimensat(AT_FDCWD, path.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
  };
  mark(node_.own_run + "/agent.lock");
  struct stat own {};
  struct stat pushed {};
  const std::string build = node_.home + "/bin/" + fs::path(node_.own_binary).filename().string();
  const bool is_pushed = ::stat("/proc/self/exe", &own) == 0 &&
                         ::lstat(build.c_str(), &pushed) == 0 && id_of(own) == id_of(pushed);
  if (is_pushed) mark(build);
}

}  // namespace muster
