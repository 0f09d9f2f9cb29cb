#include "templates/parse_file.h"

#include "templates/cluster/file.h"
#include "templates/job/command_job.h"
#include "templates/pipeline/component.h"
#include "templates/pipeline/pipeline.h"
#include "templates/pipeline/resource.h"
#include "templates/pipeline/sweep.h"
#include "templates/yaml/file_kind.h"
#include "templates/yaml/path_form.h"

namespace muster {

namespace {

void read_kind(const Value& root, Reading& reading, JobFile& job) {
  ComponentShape shape;
  switch (job.kind) {
    case FileKind::command:
      read_command_job(root, reading, job.spec);
      break;
    case FileKind::sweep:
      read_sweep_job(root, reading, job.spec);
      break;
    case FileKind::pipeline:
      read_pipeline_job(root, reading, job.spec);
      break;
    case FileKind::command_component:
      read_command_component(root, reading, shape);
      break;
    case FileKind::pipeline_component:
      read_pipeline_component(root, reading, shape);
      break;
    case FileKind::compute:
      read_compute_file(root);
      break;
    case FileKind::environment:
      read_environment_file(root, reading);
      break;
    case FileKind::datastore:
      read_datastore_file(root);
      break;
    case FileKind::data_asset:
      read_data_asset_file(root, reading);
      break;
    case FileKind::cluster:
      read_cluster(root);
      break;
    case FileKind::unsupported:
    case FileKind::unreadable:
    case FileKind::empty:
      break;
  }
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
  return job;
}

}  // namespace muster
