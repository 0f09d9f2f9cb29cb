#include "launcher/agent/keeper/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/message_codec.h"

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
  return name == "outputs" || name == "logs";
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

}  // namespace muster
