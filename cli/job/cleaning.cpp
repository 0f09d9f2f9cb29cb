#include "cli/job/cleaning.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "cli/job/report.h"
#include "cli/terminal/files.h"
#include "launcher/controller/store/job_leavings.h"
#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "launcher/staging/blob_store.h"
#include "launcher/staging/materialize.h"
#include "launcher/staging/trees_file.h"
#include "templates/cluster/file.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t settings_most_bytes = 64 << 10;
// A submission of a hundred gigabytes of code takes hours.
constexpr Milliseconds abandoned_after = days(1);

// Never below the current directory, which may be anybody's.
fs::path settings_path() {
  const auto absolute = [](const char* name) {
    const std::string value = environment(name);
    return fs::path(value.starts_with('/') ? value : "");
  };
  fs::path root = absolute("XDG_CONFIG_HOME");
  if (root.empty()) {
    fs::path home = absolute("HOME");
    if (const passwd* entry = home.empty() ? ::getpwuid(::geteuid()) : nullptr) {
      home = entry->pw_dir;
    }
    root = "/" / home / ".config";
  }
  return root / "muster" / "retention.yml";
}

std::int64_t bytes_on_disk(const fs::path& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 ? facts.st_blocks * 512 : 0;
}

std::int64_t bytes_of(const std::vector<fs::path>& parts) {
  std::int64_t bytes = 0;
  const auto careful = fs::directory_options::skip_permission_denied;
  for (const fs::path& part : parts) {
    bytes += bytes_on_disk(part);
    std::error_code failed;
    if (!fs::is_directory(fs::symlink_status(part, failed))) continue;
    for (fs::recursive_directory_iterator it(part, careful, failed), end; !failed && it != end;
         it.increment(failed)) {
      bytes += bytes_on_disk(it->path());
    }
  }
  return bytes;
}

// Also where that cannot be told.
bool holds_directories(const fs::path& folder) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (fs::is_directory(entry.symlink_status(failed)) || failed) return true;
  }
  return static_cast<bool>(failed);
}

template <class T>
T needed(Result<T> result) {
  return or_end(std::move(result), internal_error, "cannot clean: ");
}

class StateCleaning {
 public:
  StateCleaning(const Cleaning& wanted, std::unique_ptr<Store> store)
      : wanted_(wanted), home_(wanted.home), store_(std::move(store)) {}

  std::vector<Removed> run() {
    abandoned();
    journal();
    job_folders();
    blobs();
    needed(left_);
    return std::move(removed_);
  }

 private:
  void add(Removed removed) {
    if (removed.count > 0) removed_.push_back(std::move(removed));
  }

  void journal() {
    if (!wanted_.keep.journal) return;
    const Time before = wanted_.now - *wanted_.keep.journal;
    Removed removed{"records of jobs that ended long ago (a summary of each is kept)", 0, 0};
    for (const JobRow& row : needed(store_->ended_before(before))) reduce(row, before, removed);
    add(std::move(removed));
    if (!wanted_.dry_run) needed(store_->forget_links(before));
  }

  void reduce(const JobRow& row, Time before, Removed& removed) {
    const JobId job{row.name};
    const JobHistory history{needed(store_->records_of(job)), {}};
    if (has_left_outputs(history.records)) return;
    const auto trees = load_trees(home_.trees(job));
    if (!trees && fs::exists(home_.trees(job))) return;  // its hashes would be lost
    const std::string summary =
        job_summary(row, history, home_.job(job).string(), trees ? *trees : std::vector<Tree>{});
    if (!wanted_.dry_run && !needed(store_->reduce(job, before, summary))) return;
    reduced_.insert(row.name);
    removed.count += 1;
  }

  // The row stays, so that `list` knows the job, and what a resume needs while there may be one.
  void job_folders() {
    if (!wanted_.keep.job_folders) return;
    const Time before = wanted_.now - *wanted_.keep.job_folders;
    Removed removed{"folders of finished jobs, with their logs and outputs", 0, 0};
    for (const std::string& name : folder_names()) {
      const auto row = needed(store_->job(JobId{name}));
      const bool is_old = row && row->ended_at && *row->ended_at < before;
      if (is_old && !row->unclean) remove_old(name, before, removed);
    }
    add(std::move(removed));
  }

  void remove_old(const std::string& name, Time before, Removed& removed) {
    const bool reduced = is_reduced(name);
    const std::vector<fs::path> parts = parts_of(home_.job(JobId{name}), reduced);
    if (parts.empty()) return;
    const std::int64_t bytes = bytes_of(parts);
    if (!wanted_.dry_run) {
      Status gone = Done{};
      const bool is_ended = needed(store_->while_ended(JobId{name}, before, [&] {
        gone = take_away(parts, trash_of(name));
        return true;
      }));
      if (!is_ended || !is_gone(gone) || !is_gone(remove_trash(name))) return;
      if (reduced) remove_if_empty(home_.job(JobId{name}));
    }
    count(removed, bytes);
  }

  // Logs and outputs; with `files_too` also what the job was made of. Jobs of this machine have
  // their checkpoints here, which stay.
  static std::vector<fs::path> parts_of(const fs::path& folder, bool files_too) {
    std::vector<fs::path> parts;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(folder, failed)) {
      const bool is_file = fs::is_regular_file(entry.symlink_status(failed));
      if (entry.path().filename() != "ckpt" && (!is_file || files_too)) parts.push_back(entry);
    }
    return parts;
  }

  static void remove_if_empty(const fs::path& folder) {
    ::rmdir((folder / "ckpt").c_str());
    ::rmdir(folder.c_str());
  }

  bool is_reduced(const std::string& name) const {
    return reduced_.contains(name) || needed(store_->summary_of(JobId{name})).has_value();
  }

  static void count(Removed& removed, std::int64_t bytes) {
    removed.count += 1;
    removed.bytes += bytes;
  }

  fs::path trash_of(const std::string& name) const {
    return home_.root / "jobs" / (trash_mark + name);
  }

  // At once, so that nothing is half there when a cleaning is killed; where there can be no such
  // folder (a full disk, the longest of names) one by one.
  static Status take_away(const std::vector<fs::path>& parts, const fs::path& trash) {
    ::mkdir(trash.c_str(), 0700);
    const bool has_trash = is_real_directory(trash);
    for (const fs::path& part : parts) {
      if (has_trash && ::rename(part.c_str(), (trash / part.filename()).c_str()) == 0) continue;
      if (Status gone = remove_tree(part); !gone) return gone;
    }
    return Done{};
  }

  // What was moved there: it takes long, and so is no part of what the store waits for.
  Status remove_trash(const std::string& name) const {
    return is_real_directory(trash_of(name)) ? remove_tree(trash_of(name)) : Status(Done{});
  }

  static bool is_real_directory(const fs::path& path) {
    std::error_code unknown;
    return fs::is_directory(fs::symlink_status(path, unknown));
  }

  // Keeps the first of what could not be removed; the rest is cleaned nevertheless.
  bool is_gone(const Status& gone) {
    if (!gone && left_) left_ = gone;
    return static_cast<bool>(gone);
  }

  // Of submissions that were killed, and of a cleaning that was.
  void abandoned() {
    Removed removed{"folders of interrupted submissions", 0, 0};
    for (const std::string& name : folder_names(true)) {
      if (name.starts_with(trash_mark)) {
        if (!wanted_.dry_run) static_cast<void>(is_gone(remove_tree(home_.job(JobId{name}))));
        continue;
      }
      const Fd lock = lock_of_abandoned(home_.job(JobId{name}));
      const auto row = needed(store_->job(JobId{name}));
      if (!lock || row) continue;
      const fs::path folder = home_.job(JobId{name});
      const std::int64_t bytes = bytes_of({folder});
      const bool is_removed = wanted_.dry_run || (is_gone(take_away({folder}, trash_of(name))) &&
                                                  is_gone(remove_trash(name)));
      if (is_removed) count(removed, bytes);
    }
    add(std::move(removed));
  }

  // A submission makes files alone, and holds the lock. A directory is of a job, or of an agent
  // whose home is the same directory.
  Fd lock_of_abandoned(const fs::path& folder) const {
    struct stat facts {};
    Fd lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    const bool is_free =
        lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0 && ::fstat(lock.get(), &facts) == 0;
    if (!is_free) return Fd();
    const Time changed = from_ms(facts.st_mtim.tv_sec * 1000LL);
    return changed < wanted_.now - abandoned_after && !holds_directories(folder) ? std::move(lock)
                                                                                 : Fd();
  }

  // What a job of which nobody knows whether it is needed names is needed.
  void blobs() {
    if (!wanted_.keep.blobs) return;
    std::set<std::string> used;
    for (const std::string& name : folder_names()) add_used(name, used);
    const auto unused_since = to_ms(wanted_.now - *wanted_.keep.blobs) / 1000;
    add(needed(sweep_blobs(home_.blobs(),
                           {[&used](const std::string& hash) { return used.contains(hash); },
                            static_cast<std::time_t>(unused_since), wanted_.dry_run})));
  }

  void add_used(const std::string& name, std::set<std::string>& used) {
    const JobId job{name};
    if (!fs::exists(home_.trees(job)) || is_reduced(name)) return;
    for (const Tree& tree : needed(load_trees(home_.trees(job)))) {
      for (const TreeEntry& entry : tree.entries) used.insert(entry.hash);
    }
  }

  std::vector<std::string> folder_names(bool with_trash = false) const {
    std::vector<std::string> names;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(home_.root / "jobs", failed)) {
      const std::string name = entry.path().filename().string();
      std::error_code unknown;
      if (!fs::is_directory(entry.symlink_status(unknown))) continue;
      if (with_trash || !name.starts_with(trash_mark)) names.push_back(name);
    }
    return names;
  }

  static inline const std::string trash_mark = ".trash-";

  const Cleaning& wanted_;
  const Home& home_;
  std::unique_ptr<Store> store_;
  std::set<std::string> reduced_;  // in this run: with `dry_run` the store does not know
  std::vector<Removed> removed_;
  Status left_ = Done{};
};

}  // namespace

Result<RetentionLimits> user_retention() {
  const std::string path = settings_path().string();
  std::error_code unknown;  // a link that leads nowhere is no absent file
  if (fs::symlink_status(path, unknown).type() == fs::file_type::not_found) return usual_retention;
  const auto text = read_input(path, settings_most_bytes);
  if (!text) return text.error();
  RetentionFile file = read_retention_file(path, *text);
  for (const Finding& finding : file.findings) {
    if (finding.severity == Severity::error) return Error{print(finding)};
  }
  return file.keep;
}

std::vector<Removed> clean_state_directory(const Cleaning& cleaning) {
  std::error_code ignored;
  if (!fs::exists(cleaning.home.root, ignored)) return {};
  needed(check_home(cleaning.home));
  if (!fs::exists(cleaning.home.root / "muster.db", ignored)) return {};
  const auto mode = cleaning.dry_run ? Store::Mode::read_only : Store::Mode::annotate;
  return StateCleaning(cleaning, needed(Store::open(cleaning.home.root, mode))).run();
}

}  // namespace muster
