#include "cli/client/targets.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "cli/terminal/escape.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "launcher/os/child.h"
#include "scheduler/text/text.h"
#include "templates/cluster/file.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> user_cluster_files() {
  std::string config = environment("XDG_CONFIG_HOME");
  if (config.empty()) config = environment("HOME") + "/.config";
  std::vector<std::string> paths;
  std::error_code failure;
  fs::directory_iterator entries(fs::path(config) / "muster" / "clusters", failure);
  for (; !failure && entries != fs::directory_iterator(); entries.increment(failure)) {
    const std::string extension = entries->path().extension().string();
    if (extension == ".yml" || extension == ".yaml") paths.push_back(entries->path().string());
  }
  std::sort(paths.begin(), paths.end());
  const std::string sandbox = sandbox_cluster_file(::getuid());
  if (fs::exists(sandbox, failure)) paths.push_back(sandbox);
  return paths;
}

std::vector<std::string> cluster_files(const CommonOptions& common) {
  if (!common.cluster_files.empty()) return common.cluster_files;
  const std::string config = environment("MUSTER_CONFIG");
  if (config.empty()) return user_cluster_files();
  const auto paths = words_in(config, ":");
  return {paths.begin(), paths.end()};
}

std::string working_directory() {
  std::error_code failure;
  const fs::path directory = fs::current_path(failure);
  return failure ? "/" : directory.string();
}

}  // namespace

std::string sandbox_cluster_file(unsigned uid) {
  return "/var/lib/muster-sandbox/" + std::to_string(uid) + "/cluster.yml";
}

ReadOptions read_options(std::vector<std::string> sets) {
  return ReadOptions{working_directory(), std::move(sets), real_files()};
}

Result<KnownTargets> find_targets(const CommonOptions& common) {
  KnownTargets known;
  known.targets = {local_target(), local_cluster_target()};
  for (const std::string& path : cluster_files(common)) {
    const auto text = read_input(path, max_file_bytes);
    if (!text) return Error{"no cluster file: " + text.error().message};
    ClusterFile file = read_cluster_file(path, *text, read_options({}));
    std::ranges::move(file.findings, std::back_inserter(known.findings));
    std::ranges::move(file.targets, std::back_inserter(known.targets));
    std::ranges::move(file.rules, std::back_inserter(known.rules));
    add_images(known.images, std::move(file.images));
    std::ranges::move(file.datastores, std::back_inserter(known.datastores));
    if (known.default_datastore.empty()) known.default_datastore = file.default_datastore;
    if (known.data == DataCacheSettings{}) known.data = file.data;
    // Jobs go to the sandbox when they, or a file that was asked for, say so.
    const bool is_asked_for =
        !common.cluster_files.empty() || path != sandbox_cluster_file(::getuid());
    if (known.default_target.empty() && is_asked_for) known.default_target = file.default_target;
  }
  return known;
}

std::vector<std::string> all_node_names(const std::vector<ComputeTarget>& targets) {
  std::vector<std::string> names;
  for (const ComputeTarget& target : targets) {
    for (const NodeAddress& node : target.nodes) names.push_back(node.id.value);
  }
  return names;
}

Status check_named_files(const CommonOptions& common) {
  if (common.cluster_files.empty() && environment("MUSTER_CONFIG").empty()) return Done{};
  const auto targets = find_targets(common);
  return targets ? Status(Done{}) : targets.error();
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
    if (!out.ends_with('\n')) out += '\n';
  }
  write_all(Stream::err, out);
}

}  // namespace muster
