#include "cli/job/check.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <tuple>

#include "cli/job/memory.h"
#include "cli/job/plan.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "launcher/sandbox/sandbox.h"
#include "templates/cluster/file.h"
#include "templates/cluster/target.h"
#include "templates/job/cannot_run.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> split_paths(const std::string& list) {
  std::vector<std::string> paths;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) paths.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return paths;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// While the user's sandbox is up, it is a target like those of the user's own files.
std::string sandbox_cluster_file() {
  return SandboxLayout(default_sandbox(::getuid())).cluster_file().string();
}

std::vector<std::string> user_cluster_files() {
  std::string config = variable("XDG_CONFIG_HOME");
  if (config.empty()) config = variable("HOME") + "/.config";
  std::vector<std::string> paths;
  std::error_code failure;
  fs::directory_iterator entries(fs::path(config) / "muster" / "clusters", failure);
  for (; !failure && entries != fs::directory_iterator(); entries.increment(failure)) {
    const std::string extension = entries->path().extension().string();
    if (extension == ".yml" || extension == ".yaml") paths.push_back(entries->path().string());
  }
  std::sort(paths.begin(), paths.end());
  if (fs::exists(sandbox_cluster_file(), failure)) paths.push_back(sandbox_cluster_file());
  return paths;
}

std::vector<std::string> cluster_files(const CommonOptions& common) {
  if (!common.cluster_files.empty()) return common.cluster_files;
  const std::string config = variable("MUSTER_CONFIG");
  return config.empty() ? user_cluster_files() : split_paths(config);
}

std::string working_directory() {
  std::error_code failure;
  const fs::path directory = fs::current_path(failure);
  return failure ? "/" : directory.string();
}

ReadOptions read_options(std::vector<std::string> sets) {
  return ReadOptions{working_directory(), std::move(sets), real_files()};
}

template <class T>
void append(std::vector<T>& to, std::vector<T> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void sort_by_place(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.order, a.line, a.column) < std::tie(b.order, b.line, b.column);
  });
}

// What keeps the job from running here, beside what is wrong with its file.
std::vector<Finding> findings_for_running(CheckedJob& job, const Result<KnownTargets>& known) {
  std::vector<Finding> found = cannot_run_yet(job.file);
  if (!known) return found;
  ResolvedTarget resolved = resolve_target(job.file, known->targets, known->default_target);
  append(found, std::move(resolved.findings));
  if (resolved.target != nullptr) job.target = *resolved.target;
  job.file.spec.muster.site_rules = known->rules;
  if (job.target) append(found, gate_findings(job.file, *job.target));
  if (job.target && !has_errors(job.file.findings)) {
    append(found, train_findings(job.file, *job.target));
  }
  return found;
}

// A value that could not be read says nothing more: only its error is shown.
std::vector<Finding> new_places(std::vector<Finding> found, const std::vector<Finding>& told) {
  const auto is_refused = [&](const Finding& each) {
    return std::any_of(told.begin(), told.end(), [&](const Finding& error) {
      return error.severity == Severity::error && error.key == each.key;
    });
  };
  std::erase_if(found, is_refused);
  return found;
}

}  // namespace

Result<KnownTargets> find_targets(const CommonOptions& common) {
  KnownTargets known;
  known.targets = {local_target(), local_cluster_target()};
  for (const std::string& path : cluster_files(common)) {
    const auto text = read_input(path, max_file_bytes);
    if (!text) return Error{"no cluster file: " + text.error().message};
    ClusterFile file = read_cluster_file(path, *text, read_options({}));
    append(known.findings, std::move(file.findings));
    for (ComputeTarget& target : file.targets) known.targets.push_back(std::move(target));
    append(known.rules, std::move(file.rules));
    // Jobs go to the sandbox when they, or a file that was asked for, say so.
    const bool is_asked_for = !common.cluster_files.empty() || path != sandbox_cluster_file();
    if (known.default_target.empty() && is_asked_for) known.default_target = file.default_target;
  }
  return known;
}

std::string no_job(FileKind kind) {
  if (kind == FileKind::cluster) return "the file is a cluster, not a job; name it with --cluster";
  return "";
}

Result<CheckedJob> check_job(const CheckRequest& request, const CommonOptions& common) {
  auto text = read_input(request.path, max_file_bytes);
  if (!text) return text.error();
  CheckedJob job;
  std::vector<Finding> about_clusters;  // another file: after the job's own
  const std::string shown = request.path == "-" ? "<stdin>" : request.path;
  job.file = read_job_file(shown, *text, read_options(request.sets));
  job.text = std::move(*text);
  const bool is_command = job.file.kind == FileKind::command && job.file.tree != nullptr;
  if (request.for_running && is_command) {
    auto known = find_targets(common);
    if (!known && !has_errors(job.file.findings)) return known.error();
    append(job.file.findings, new_places(findings_for_running(job, known), job.file.findings));
    if (known) about_clusters = std::move(known->findings);
  }
  const bool other_job = !is_command && no_job(job.file.kind).empty();
  if (request.for_running && other_job) append(job.file.findings, cannot_run_yet(job.file));
  sort_by_place(job.file.findings);
  append(job.file.findings, std::move(about_clusters));
  const bool stopped = has_errors(job.file.findings) ||
                       (has_unresolved(job.file.findings) && !request.accept_unresolved);
  job.can_run = is_command && job.target.has_value() && !stopped;
  return job;
}

void print_findings(const std::vector<Finding>& findings, const CommonOptions& common) {
  const bool color = wants_color(common.color, Stream::err);
  std::string out;
  for (const Finding& finding : findings) {
    const bool stops =
        finding.severity == Severity::error || finding.severity == Severity::unresolved;
    if (!stops && common.only_show_errors) continue;
    std::string text = printable(print(finding));
    const std::string word = std::string(severity_name(finding.severity)) + ":";
    const Ink ink = stops                                   ? Ink::red
                    : finding.severity == Severity::warning ? Ink::yellow
                                                            : Ink::blue;
    if (const auto at = text.find(word); at != text.npos) {
      text.replace(at, word.size(), inked(word, ink, color));
    }
    out += text;
    if (out.empty() || out.back() != '\n') out += '\n';
  }
  write_all(Stream::err, out);
}

}  // namespace muster
