#include "templates/parse_file.h"

#include <algorithm>

#include "scheduler/text/text.h"
#include "templates/cluster/file.h"
#include "templates/job/command_job.h"
#include "templates/pipeline/pipeline.h"
#include "templates/resource/data_asset.h"
#include "templates/resource/datastore.h"
#include "templates/settings/setting_table.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/read_options.h"
#include "templates/yaml/writer.h"

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
      return read_environment_file(root, reading);
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

bool joins_by_commas(const YamlNode& list) {
  return std::ranges::all_of(list.items, [](const YamlNode& item) {
    return item.kind == YamlNode::Kind::scalar && !mentions(item.text, ",");
  });
}

std::string property_text(const YamlNode& value) {
  if (value.kind == YamlNode::Kind::scalar) return value.text;
  if (value.kind != YamlNode::Kind::list || !joins_by_commas(value)) return write_json(value);
  std::string out;
  for (const YamlNode& item : value.items) out += (out.empty() ? "" : ",") + item.text;
  return out;
}

void flatten(const YamlNode& map, const std::string& prefix, YamlNode& properties) {
  for (const Entry& entry : map.entries) {
    const std::string path = prefix + entry.key;
    const bool leaf = find_setting(path) || entry.value.kind != YamlNode::Kind::map;
    if (!leaf) {
      flatten(entry.value, path + '.', properties);
    } else if (entry.value.kind != YamlNode::Kind::null) {
      properties.entries.push_back(
          {"muster." + path, entry.place,
           scalar_node(property_text(entry.value), entry.value.place, true)});
    }
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

std::string render_for_azure(const JobFile& job) {
  if (!job.tree) return "";
  YamlNode out = *job.tree;
  const YamlNode* settings = job.tree->find("muster");
  if (!settings || settings->kind != YamlNode::Kind::map) return write_yaml(out);
  std::erase_if(out.entries, [](const Entry& entry) { return entry.key == "muster"; });
  YamlNode* properties = out.find("properties");
  if (!properties) {
    out.entries.push_back({"properties", settings->place, YamlNode{}});
    properties = &out.entries.back().value;
  }
  properties->kind = YamlNode::Kind::map;
  flatten(*settings, "", *properties);
  return write_yaml(out);
}

}  // namespace muster
