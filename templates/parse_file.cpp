#include "templates/parse_file.h"

#include <algorithm>

#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/cluster/file.h"
#include "templates/job/command_job.h"
#include "templates/pipeline/pipeline.h"
#include "templates/resource/datastore.h"
#include "templates/settings/setting_table.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/read_options.h"

namespace muster {

namespace {

void read_kind(const Value& root, Reading& reading, JobFile& job) {
  switch (job.kind) {
    case FileKind::command:
      return read_command_job(root, reading, job.spec);
    case FileKind::sweep:
      return read_sweep_job(root, reading, job.spec);
    case FileKind::pipeline:
      return read_pipeline_job(root, reading, job.spec);
    case FileKind::command_component:
      return static_cast<void>(read_command_component(root, reading));
    case FileKind::pipeline_component:
      return static_cast<void>(read_pipeline_component(root, reading));
    case FileKind::compute:
      return read_compute_file(root);
    case FileKind::environment:
      return read_environment_file(root, reading, job.spec.environment);
    case FileKind::datastore:
      return static_cast<void>(read_datastore(root));
    case FileKind::data_asset:
      return static_cast<void>(read_data_asset(root, reading.options.files));
    case FileKind::cluster:
      return static_cast<void>(read_cluster(root));
    case FileKind::unsupported:
    case FileKind::unreadable:
    case FileKind::empty:
      return;
  }
}

// `comand` beside a missing `command`: one mistake, and the unknown key's line says how to mend it.
bool is_said_already(const Finding& missing, const std::vector<Finding>& all) {
  const bool is_key = missing.message.ends_with(" is required");
  const bool is_choice = missing.message.ends_with("expected 'image' or 'build'");
  if (missing.severity != Severity::error || (!is_key && !is_choice)) return false;
  const auto parent = [](const std::string& key) {
    return key.substr(0, key.find('.') == key.npos ? 0 : key.rfind('.'));
  };
  return std::ranges::any_of(all, [&](const Finding& unknown) {
    constexpr std::string_view means = "did you mean '";
    if (!unknown.suggestion.starts_with(means) || !unknown.message.starts_with("unknown key")) {
      return false;
    }
    const std::string word = unknown.suggestion.substr(means.size() - 1);
    const std::string key = word.substr(0, word.size() - 1);  // 'command', in quotes
    const std::string path = missing.key.substr(missing.key.rfind('.') + 1);
    return is_key ? key == quoted_text(path) && parent(unknown.key) == parent(missing.key)
                  : mentions(missing.message, key) && parent(unknown.key) == missing.key;
  });
}

}  // namespace

JobFile read_job_file(const std::string& path, std::string_view text, const ReadOptions& options) {
  JobFile job;
  FindingList findings;
  Reading reading(findings, options);
  job.tree = parse_with_sets(path, text, options, findings);
  if (job.tree) {
    const Value root(*job.tree, "", findings);
    if (root.is_null()) {
      job.kind = FileKind::empty;
      root.error("the file is empty; a job has a 'command'");
    } else if (!root.is_map()) {
      root.error("expected a map of keys such as 'command', got " + describe(*job.tree));
    } else {
      job.kind = detect_kind(root);
      read_kind(root, reading, job);
    }
  }
  if (job.spec.experiment_name.empty()) job.spec.experiment_name = file_name_of(options.cwd);
  job.findings = findings.take_sorted();
  const std::vector<Finding> all = job.findings;
  std::erase_if(job.findings, [&](const Finding& each) { return is_said_already(each, all); });
  return job;
}

}  // namespace muster
