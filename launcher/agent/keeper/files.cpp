#include "launcher/agent/keeper/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "launcher/agent/node/log.h"
#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/blob_store.h"
#include "launcher/staging/materialize.h"
#include "launcher/wire/message_codec.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

constexpr const char* sessions_name = "/sessions";

namespace fs = std::filesystem;

Status make_directory(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) return system_error("create the directory " + path, failed.value());
  return Done{};
}

// A rank may have put a link in the place of any directory.
bool is_real_directory(const fs::path& path) {
  std::error_code failed;
  return fs::is_directory(fs::symlink_status(path, failed));
}

// `code/<name>` becomes a link to `durable`; entries of a real directory there move over first.
Status link_durable(const std::string& code, const char* name, const std::string& durable) {
  const fs::path link = fs::path(code) / name;
  std::error_code failed;
  if (is_real_directory(link)) {
    for (const auto& entry : fs::directory_iterator(link, failed)) {
      const fs::path target = fs::path(durable) / entry.path().filename();
      if (!path_exists(target.string())) fs::rename(entry.path(), target, failed);
    }
  }
  fs::remove_all(link, failed);
  fs::create_symlink(durable, link, failed);
  if (failed) return system_error("link " + link.string() + " to " + durable, failed.value());
  return Done{};
}

// A greeting stays below a quarter of a MiB.
constexpr std::size_t folders_told = 1000;

bool is_empty_directory(const fs::path& path) {
  std::error_code failed;
  return fs::is_empty(path, failed) && !failed;
}

bool is_written_by_ranks(const std::string& name) {
  return name == "outputs" || name == "logs" || name == ".present";  // output_content.h
}

enum class Holds { checkpoints, outputs, more };

Holds content_of(const fs::path& folder) {
  Holds holds = Holds::checkpoints;
  std::error_code failed;
  if (is_empty_directory(folder)) return Holds::more;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    const bool is_output = is_written_by_ranks(name);
    if ((name != "ckpt" && !is_output) || is_empty_directory(entry.path())) return Holds::more;
    if (is_output) holds = Holds::outputs;
  }
  return failed ? Holds::more : holds;
}

Status lay_module(const std::string& directory, const std::string& name, std::string_view text) {
  if (Status made = make_directory(directory); !made) return made;
  if (replace_file(directory + name, text, 0600, Durable::in_cache)) return Done{};
  return system_error("write " + directory + name);
}

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

bool path_exists(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0;
}

Status prepare_code(const AttemptLayout& layout) {
  for (const std::string& path : {layout.job, layout.code, layout.outputs, layout.logs}) {
    if (Status made = make_directory(path); !made) return made;
  }
  if (Status linked = link_durable(layout.code, "outputs", layout.outputs); !linked) return linked;
  return link_durable(layout.code, "logs", layout.logs);
}

Status prepare_attempt(const StartRanks& start, const AttemptLayout& layout,
                       const DataPaths& paths) {
  if (Status made = make_directory(layout.spool + "/vitals"); !made) return made;
  Status laid = lay_module(python_directory(layout), "/muster.py", muster_module());
  if (laid) laid = lay_module(python_directory(layout), "/muster_ray.py", muster_ray_module());
  if (laid) laid = lay_module(debug_directory(layout), "/sitecustomize.py", muster_debug_module());
  if (!laid) return laid;
  const auto to_user = fs::perms::owner_all;
  std::error_code ignored;
  fs::permissions(layout.spool, to_user, ignored);
  if (Status made = make_directory(checkpoint_directory(start, layout)); !made) return made;
  for (const auto& [name, output] : start.outputs) {
    const std::string& path = paths.outputs.at(name);
    if (path.empty() || path.front() != '/') continue;  // a URI
    const bool is_file = output.type == DataType::uri_file;
    Status made = make_directory(is_file ? fs::path(path).parent_path().string() : path);
    if (!made) return made;
  }
  return Done{};
}

Status save_start(const AttemptLayout& layout, const StartRanks& start) {
  const std::string path = layout.spool + "/start.frame";
  if (replace_file(path, encode(ToAgent{start}), 0600, Durable::in_cache)) return Done{};
  return system_error("write " + path);
}

std::optional<StartRanks> load_start(const AttemptLayout& layout) {
  const std::string bytes = text_of_file(layout.spool + "/start.frame");
  FrameReader reader;
  reader.feed(std::as_bytes(std::span(bytes)));
  auto frame = reader.next();
  if (!frame || !*frame) return {};
  auto received = decode<ToAgent>(std::move(**frame));
  if (!received) return {};
  auto* start = std::get_if<StartRanks>(&received->message);
  return start != nullptr ? std::optional(std::move(*start)) : std::nullopt;
}

void note_session(const std::string& spool, const std::string& boot_id, pid_t session) {
  const std::string path = spool + sessions_name;
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  const std::string line = boot_id + ' ' + std::to_string(session) + '\n';
  [[maybe_unused]] const ssize_t put = ::write(file.get(), line.data(), line.size());
}

std::set<pid_t> noted_sessions(const std::string& spool, const std::string& boot_id) {
  std::set<pid_t> sessions;
  std::istringstream lines(text_of_file(spool + sessions_name));
  std::string boot;
  for (pid_t session = 0; lines >> boot >> session;) {
    if (boot == boot_id) sessions.insert(session);
  }
  return sessions;
}

std::vector<AttemptKey> attempts_below(const std::string& root) {
  std::vector<AttemptKey> keys;
  std::error_code failed;
  for (const auto& job : fs::directory_iterator(root, failed)) {
    for (const auto& attempt : fs::directory_iterator(job.path(), failed)) {
      const std::string number = attempt.path().filename().string();
      keys.push_back(
          {JobId{job.path().filename().string()}, AttemptId{std::atoll(number.c_str())}});
    }
  }
  return keys;
}

void remove_scratch(const AttemptLayout& layout) {
  std::error_code ignored;
  fs::remove_all(layout.ray_scratch, ignored);
  fs::remove_all(layout.mpi_scratch, ignored);
  fs::remove_all(layout.mpi_shared_memory, ignored);
}

std::vector<JobId> jobs_with_folders(const RunDirectory& run) {
  using Folder = std::tuple<bool, fs::file_time_type, std::string>;
  std::vector<Folder> folders;
  const fs::path root = fs::path(layout_of(run, {JobId{"x"}, AttemptId{0}}).job).parent_path();
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(root, failed)) {
    if (!is_real_directory(entry.path())) continue;
    const Holds holds = content_of(entry.path());
    if (holds == Holds::checkpoints) continue;
    std::error_code unknown;
    folders.emplace_back(holds == Holds::outputs, entry.last_write_time(unknown),
                         entry.path().filename().string());
  }
  std::ranges::sort(folders);
  if (folders.size() > folders_told) folders.resize(folders_told);
  std::vector<JobId> jobs;
  for (Folder& folder : folders) jobs.push_back({std::move(std::get<2>(folder))});
  return jobs;
}

std::vector<std::string> disposable_parts(const std::string& job_folder, bool outputs_too) {
  std::vector<std::string> parts;
  if (!is_real_directory(job_folder)) return parts;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(job_folder, failed)) {
    const std::string name = entry.path().filename().string();
    const bool stays =
        is_written_by_ranks(name) && !outputs_too && !is_empty_directory(entry.path());
    if (name != "ckpt" && !stays) parts.push_back(entry.path().string());
  }
  return parts;
}

void remove_if_empty(const AttemptLayout& layout) {
  ::rmdir(layout.checkpoints.c_str());
  ::rmdir(layout.job.c_str());
}

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
