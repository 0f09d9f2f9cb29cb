#include "launcher/agent/keeper/job_folders.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

namespace muster {

namespace {

namespace fs = std::filesystem;

// A greeting stays below a quarter of a MiB.
constexpr std::size_t folders_told = 1000;

bool is_empty_directory(const fs::path& path) {
  std::error_code failed;
  return fs::is_empty(path, failed) && !failed;
}

bool is_written_by_ranks(const std::string& name) {
  return name == "outputs" || name == "logs";
}

// A rank may have put a link in the place of any directory.
bool is_real_directory(const fs::path& path) {
  std::error_code failed;
  return fs::is_directory(fs::symlink_status(path, failed));
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

}  // namespace

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
