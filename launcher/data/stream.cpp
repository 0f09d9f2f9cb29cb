#include "launcher/data/stream.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "launcher/data/rclone.h"
#include "launcher/os/child.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr auto mount_limit = 60s;
constexpr auto step = 200ms;
constexpr auto ask_interval = 10s;
constexpr auto silence_told = 45s;  // before a rank that waits for it is suspected
constexpr auto silence_step = 15s;
constexpr Milliseconds unmount_limit{10'000};
constexpr std::int64_t least_cache = std::int64_t{1} << 20;  // of 0 rclone makes no limit

bool is_mounted(const fs::path& directory) {
  struct statfs facts {};
  return ::statfs(directory.c_str(), &facts) == 0 && facts.f_type == FUSE_SUPER_MAGIC;
}

// Also where the process behind the mount is gone.
void unmount(const fs::path& directory) {
  if (::umount2(directory.c_str(), MNT_DETACH) == 0) return;
  const std::vector<std::string> argv{"fusermount3", "-uz", directory.string()};
  if (errno != EINVAL) static_cast<void>(run_within(argv, unmount_limit));
}

// Never what lies behind a mount that could not be taken away.
void remove_stream(const fs::path& directory) {
  unmount(directory / "mount");
  std::error_code failure;
  const fs::path kept = fs::read_symlink(directory / "cache", failure);
  if (!failure && kept.parent_path().filename() == "streams") fs::remove_all(kept, failure);
  fs::remove(directory / "cache", failure);
  if (::rmdir((directory / "mount").c_str()) != 0 && errno != ENOENT) return;
  fs::remove(directory / "why", failure);
  fs::remove(directory, failure);
}

std::string in_quotes(const std::string& text) {
  return '"' + replaced(text, "\"", "\"\"") + '"';
}

// The second store, which tells no hashes, keeps rclone from comparing them: with them it takes
// what it has read for outdated, and fetches all of it again in the next epoch.
std::string mount_config(const StagedData& data) {
  return data.config +
         "\n[none]\ntype = http\nurl = http://127.0.0.1:1\n\n[all]\ntype = combine\n" +
         "upstreams = " + in_quotes("d=" + data.source) + " \"n=none:\"\n";
}

void say_why(const fs::path& directory, const std::string& why) {
  const fs::path file = directory / "why";
  if (why.empty()) {
    ::unlink(file.c_str());
  } else if (text_of_file(file) != why) {
    static_cast<void>(replace_file(file, why, 0600, Durable::in_cache));
  }
}

// A child that ends with this process.
template <class Work>
pid_t begin_child(Work work) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::_exit(work());
}

class Keeper {
 public:
  Keeper(const StagedData& data, const fs::path& directory, const StreamCache& cache)
      : data_(data), directory_(directory), cache_(cache) {}

  // Until nobody holds the lock.
  void run(const Fd& lock) {
    mount_ = begin_child([this] { return mount(); });
    while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (mount_ > 0 && ::waitpid(mount_, nullptr, WNOHANG) == mount_) mount_ = 0;
      if (mount_ > 0) ask();
      if (mount_ > 0) look_at_mount();
      std::this_thread::sleep_for(step);
    }
    for (const pid_t child : {asking_, looking_}) {
      if (child > 0) ::kill(child, SIGKILL);
    }
    unmount(directory_ / "mount");
    for (int i = 0; mount_ > 0 && i < 25; ++i) {
      if (::waitpid(mount_, nullptr, WNOHANG) == mount_) mount_ = 0;
      std::this_thread::sleep_for(step);
    }
    if (mount_ > 0) ::kill(mount_, SIGKILL);
    remove_stream(directory_);
  }

 private:
  // In a child. Ends when the mount is taken away.
  int mount() const {
    const auto failure = run_rclone(
        {{"mount", "all:", (directory_ / "mount").string(), "--read-only", "--vfs-cache-mode=full",
          "--dir-cache-time=1000h", "--attr-timeout=1h", "--vfs-read-ahead=256M",
          "--vfs-cache-max-size=" + std::to_string(std::max(cache_.bytes, least_cache)),
          "--cache-dir=" + (directory_ / "cache").string()},
         mount_config(data_)});
    say_why(directory_, "the mount of the data of " + data_name(data_) + " ended" +
                            (failure ? ": " + failure->message : ""));
    return 0;
  }

  // The store itself, beside the mount: what waits in the mount cannot be asked.
  void ask() {
    const auto now = Steady::now();
    int status = 0;
    if (asking_ > 0 && ::waitpid(asking_, &status, WNOHANG) == asking_) {
      asking_ = 0;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        answered_ = asked_;
        say_why(directory_, "");
      }
    }
    if (asking_ > 0 && now - asked_ > silence_told) ::kill(asking_, SIGKILL);
    if (asking_ == 0 && now - asked_ > ask_interval) {
      asked_ = now;
      asking_ = begin_child([this] {
        return run_rclone({{"lsjson", "--stat", asked_for_}, data_.config}) ? 1 : 0;
      });
    }
    const auto silent = std::chrono::duration_cast<Milliseconds>(now - answered_);
    if (silent < silence_told) return;
    say_why(directory_, "storage: the datastore of " + data_name(data_) + " has not answered for " +
                            std::to_string(silent / silence_step * silence_step / 1s) + " s");
  }

  // rclone itself, which answers this alone. Where it stands still, a rank that reads cannot even
  // be killed; without it the reads fail.
  void look_at_mount() {
    const auto now = Steady::now();
    if (looking_ > 0 && ::waitpid(looking_, nullptr, WNOHANG) == looking_) looking_ = 0;
    if (looking_ > 0 && now - looked_ > silence_told) {
      ::kill(mount_, SIGKILL);
      say_why(directory_, "storage: the mount of the data of " + data_name(data_) +
                              " did not answer for 45 s, and was ended");
      ::waitpid(mount_, nullptr, 0);
      mount_ = 0;
    }
    if (looking_ == 0 && now - looked_ > ask_interval) {
      looked_ = now;
      looking_ = begin_child([this] { return is_mounted(directory_ / "mount") ? 0 : 1; });
    }
  }

  const StagedData& data_;
  const fs::path& directory_;
  const StreamCache& cache_;
  // One object: a directory would be listed.
  std::string asked_for_ =
      data_.source + (data_.source.ends_with(':') ? "" : "/") + rclone_name(cache_.first_file);
  pid_t mount_ = 0;
  pid_t asking_ = 0;
  pid_t looking_ = 0;
  Steady::time_point asked_ = Steady::now();
  Steady::time_point answered_ = asked_;
  Steady::time_point looked_ = asked_;
};

// With none of the agent's descriptors. It stays in the agent's session, by which it is known not
// to be a process of the attempt.
[[noreturn]] void become_keeper(const StagedData& data, const fs::path& directory,
                                const StreamCache& cache) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "muster-stream");
  ::close_range(0, ~0U, 0);
  for (int fd = 0; fd < 3; ++fd) ::open("/dev/null", O_RDWR);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD}) {
    ::signal(signal, signal == SIGPIPE ? SIG_IGN : SIG_DFL);
  }
  const Fd lock(::open((directory.string() + ".lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (lock) Keeper(data, directory, cache).run(lock);
  if (!fs::exists(fs::symlink_status(directory))) ::unlink((directory.string() + ".lock").c_str());
  ::_exit(0);
}

std::string why_no_fuse(const StagedData& data, const std::string& machine) {
  const bool has_device = ::access("/dev/fuse", R_OK | W_OK) == 0;
  const bool has_program =
      static_cast<bool>(run_within({"fusermount3", "--version"}, unmount_limit));
  if (has_device && has_program) return {};
  return "the data of input " + quoted_text(data.input) + " cannot be mounted on " + machine +
         ": " + (has_device ? "install Debian's package 'fuse3'" : "there is no /dev/fuse");
}

}  // namespace

fs::path stream_directory(const std::string& root, const JobId& job, AttemptId attempt,
                          const StagedData& data) {
  const std::string name = (data.how.starts_with("output") ? "output " : "") + data.input;
  return fs::path(root) / "streams" /
         (job.value + "." + std::to_string(attempt.value) + "." + name);
}

Result<Fd> hold_stream(const fs::path& directory) {
  if (auto made = open_private_directory(directory.parent_path().string()); !made) {
    return made.error();
  }
  const std::string file = directory.string() + ".lock";
  // A keeper that ends, or who clears up after one, has it for a moment.
  for (int tries = 0; tries < 50; ++tries) {
    if (auto lock = shared_lock(file)) return std::move(*lock);
    std::this_thread::sleep_for(20ms);
  }
  return system_error("lock " + file);
}

Status begin_stream(const StagedData& data, const fs::path& directory, const StreamCache& cache,
                    const std::string& machine, const TellData& tell) {
  if (rclone_program().empty()) return Error{RcloneFailure{}.text("", machine)};
  if (std::string why = why_no_fuse(data, machine); !why.empty()) return Error{std::move(why)};
  remove_stream(directory);
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const fs::path kept = cache.parent / (directory.filename().string() + "." + std::to_string(now));
  for (const fs::path& part : {directory, directory / "mount", kept}) {
    if (auto made = open_private_directory(part.string()); !made) return made.error();
  }
  if (::symlink(kept.c_str(), (directory / "cache").c_str()) != 0) {
    return system_error("make " + (directory / "cache").string());
  }
  const pid_t child = ::fork();
  if (child < 0) return system_error("start a process");
  if (child == 0) become_keeper(data, directory, cache);
  for (const auto until = Steady::now() + mount_limit; Steady::now() < until;) {
    if (is_mounted(directory / "mount")) return Done{};
    if (std::string why = text_of_file(directory / "why"); !why.empty()) return Error{why};
    tell("data: mounting " + data_name(data));
    std::this_thread::sleep_for(step);
  }
  return Error{"the data of " + data_name(data) + " were not mounted within 60 s"};
}

std::string trouble_of_streams(const std::string& root, const JobId& job, AttemptId attempt) {
  const fs::path some = stream_directory(root, job, attempt, {});
  std::error_code failure;
  for (fs::directory_iterator entry(some.parent_path(), failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (!entry->path().filename().string().starts_with(some.filename().string())) continue;
    if (std::string why = text_of_file(entry->path() / "why"); !why.empty()) return why;
  }
  return {};
}

void remove_left_streams(const std::string& root) {
  std::error_code failure;
  for (fs::directory_iterator entry(fs::path(root) / "streams", failure), end;
       !failure && entry != end; entry.increment(failure)) {
    if (entry->path().extension() != ".lock") continue;
    const Fd lock(::open(entry->path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    const fs::path directory = fs::path(entry->path()).replace_extension();
    remove_stream(directory);
    if (!fs::exists(fs::symlink_status(directory))) ::unlink(entry->path().c_str());
  }
}

}  // namespace muster
