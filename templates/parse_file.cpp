#include "templates/parse_file.h"

#include "scheduler/text/spelling.h"
#include "templates/cluster/file.h"
#include "templates/job/command_job.h"
#include "templates/pipeline/component.h"
#include "templates/pipeline/pipeline.h"
#include "templates/pipeline/resource.h"
#include "templates/pipeline/sweep.h"
#include "templates/yaml/file_kind.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/reader.h"
#include "templates/yaml/set_option.h"

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

void fill_replaced(std::string& text, std::string_view placeholder, const std::string& name) {
  std::size_t at = 0;
  while ((at = text.find(placeholder, at)) != std::string::npos) {
    text.replace(at, placeholder.size(), name);
    at += name.size();
  }
}

// After every file that a job may include (reading.cpp).
constexpr int first_set_order = 1000000;

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

void give_name(JobSpec& spec, const std::string& name) {
  spec.name = name;
  for (auto& [key, output] : spec.outputs) fill_replaced(output.path, "\x01name\x02", name);
}

Finding finding_about(const JobFile& job, Severity severity, const std::string& key,
                      const std::string& message, const std::string& suggestion) {
  Place place;
  if (job.tree) {
    std::string nearest_key = key;
    const YamlNode* found = job.tree->find_path(nearest_key);
    if (!found) found = job.tree->find_path("properties." + key);
    if (!found && key == "muster.nodes.max") {
      found = job.tree->find_path("resources.max_instance_count");
    }
    while (!found) {
      const std::size_t dot = nearest_key.rfind('.');
      nearest_key.resize(dot == std::string::npos ? 0 : dot);
      found = job.tree->find_path(nearest_key);
    }
    place = found->place;
  }
  return finding_at(severity, place, key, message, suggestion);
}

std::shared_ptr<const YamlNode> parse_with_sets(const std::string& path, std::string_view text,
                                            const ReadOptions& options, FindingList& findings) {
  auto source = std::make_shared<Source>();
  source->path = path;
  source->directory = directory_of(absolute_path(path, options.cwd));
  source->text = without_byte_order_mark(text);
  std::optional<YamlNode> tree = read_yaml(source, findings);
  if (!tree) return nullptr;
  if (tree->kind == YamlNode::Kind::null) tree->place = Place{source, 0, 0};
  int order = first_set_order;
  for (const std::string& set : options.sets) {
    apply_set(*tree, set, source->directory, order++, findings);
  }
  return std::make_shared<const YamlNode>(std::move(*tree));
}

}  // namespace muster
