// A job file in the words of Azure ML's client.
#include <algorithm>

#include "scheduler/model/names.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/azure/azure.h"
#include "templates/azure/dialect.h"
#include "templates/settings/setting_table.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/writer.h"

namespace muster {
namespace {

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

void drop(YamlNode& map, std::string_view key) {
  std::erase_if(map.entries, [&](const Entry& entry) { return entry.key == key; });
}

// The value under `key`, made where it is not there: then others in the map move.
YamlNode& at(YamlNode& map, const std::string& key) {
  if (YamlNode* found = map.find(key)) return *found;
  map.kind = YamlNode::Kind::map;
  map.entries.push_back({key, map.place, YamlNode{}});
  map.entries.back().value.place = map.place;
  return map.entries.back().value;
}

void put_text(YamlNode& map, const std::string& key, const std::string& text) {
  YamlNode& value = at(map, key);
  value = scalar_node(text, value.place, false);
}

// `old` goes; its value stands under `name`, unless something does already.
void rename(YamlNode& map, std::string_view old, const std::string& name) {
  const YamlNode* value = map.find(old);
  if (!value) return;
  const YamlNode kept = *value;
  drop(map, old);
  if (!map.find(name)) at(map, name) = kept;
}

void settings_to_properties(YamlNode& root) {
  const YamlNode* settings = root.find("muster");
  if (!settings || settings->kind != YamlNode::Kind::map) return;
  const YamlNode kept = *settings;
  drop(root, "muster");
  YamlNode& properties = at(root, "properties");
  properties.kind = YamlNode::Kind::map;
  flatten(kept, "", properties);
}

// The old forms of the whole job.
void rewrite_job(YamlNode& root, const JobSpec& spec) {
  if (const YamlNode* compute = root.find("compute"); compute && compute->find("target")) {
    const YamlNode old = *compute;
    at(root, "compute") = *old.find("target");
    if (const YamlNode* count = old.find("instance_count")) {
      at(at(root, "resources"), "instance_count") = *count;
    }
  }
  if (YamlNode* code = root.find("code"); code && code->kind == YamlNode::Kind::map) {
    const YamlNode old = *code;
    for (const char* key : {"local_path", "directory"}) {
      if (old.find(key)) at(root, "code") = *old.find(key);
    }
  }
  if (YamlNode* limits = root.find("limits"); limits && limits->find("timeout_minutes")) {
    drop(*limits, "timeout_minutes");
    if (spec.timeout) put_text(*limits, "timeout", std::to_string(spec.timeout->count()));
  }
  YamlNode* spread = root.find("distribution");
  const bool is_counted = spec.distribution.type == DistributionType::pytorch ||
                          spec.distribution.type == DistributionType::mpi;
  if (spread && is_counted && (spread->find("process_count") || spread->find("worker_count"))) {
    drop(*spread, "process_count");
    drop(*spread, "worker_count");
    put_text(*spread, "process_count_per_instance",
             std::to_string(spec.distribution.processes_per_node));
  }
}

// A reference needs a version there; which one is current is the label's word.
void add_label(YamlNode* value) {
  if (!value || !is_asset_reference(value->text)) return;
  if (value->text.find_first_of(":@", 8) == std::string::npos) value->text += "@latest";
}

void rewrite_environment(YamlNode& root) {
  YamlNode& environment = at(root, "environment");
  if (environment.kind == YamlNode::Kind::null) {
    environment = scalar_node("azureml:host", environment.place, false);
  }
  add_label(&environment);
  if (YamlNode* build = environment.find("build")) rename(*build, "local_path", "path");
}

void rewrite_input(YamlNode& value, const InputSpec& input) {
  value.quoted |= is_date_in_azure(value);
  if (value.kind != YamlNode::Kind::map) return;
  if (input.is_literal) {
    if (!value.find("value")) value = scalar_node(input.literal, value.place, true);
    return;
  }
  if (const YamlNode* data = value.find("data")) {
    const YamlNode* path = data->find("path") ? data->find("path") : data->find("local_path");
    const YamlNode kept = path ? *path : YamlNode{};
    drop(value, "data");
    at(value, "path") = kept;
  }
  for (const char* old : {"file", "folder"}) rename(value, old, "path");
  for (const char* none : {"description", "default", "optional"}) drop(value, none);
  if (!value.find("type")) put_text(value, "type", std::string(word(input.type)));
  if (YamlNode* mode = value.find("mode"); mode && folded(mode->text) == "mount") {
    mode->text = "ro_mount";
  }
  add_label(value.find("path"));
}

void rewrite_service(YamlNode& value) {
  rename(value, "job_service_type", "type");
  if (YamlNode* type = value.find("type")) {
    const std::string known = folded(type->text);
    type->text = known == "tensorboard" ? "tensor_board" : known;
  }
  if (YamlNode* properties = value.find("properties")) {
    const YamlNode* folder = properties->find("logDir");
    const YamlNode kept = folder ? *folder : YamlNode{};
    drop(*properties, "logDir");
    if (kept.kind != YamlNode::Kind::null) at(value, "log_dir") = kept;
  }
  const YamlNode* nodes = value.find("nodes");
  if (nodes && nodes->text == "0") drop(value, "nodes");
}

// In the types of the table; a null stays only where it is taken.
void fit_all(YamlNode& map, const KeyPath& path) {
  std::erase_if(map.entries, [&](const Entry& entry) {
    KeyPath below = path;
    below.push_back(entry.key);
    const AzurePlace* place = azure_place(below);
    return entry.value.kind == YamlNode::Kind::null && place && !place->takes_null;
  });
  for (Entry& entry : map.entries) {
    KeyPath below = path;
    below.push_back(entry.key);
    if (const AzurePlace* place = azure_place(below)) fit_for_azure(entry.value, *place);
    fit_all(entry.value, below);
  }
}

void rewrite_command_job(YamlNode& root, const JobSpec& spec) {
  rewrite_job(root, spec);
  rewrite_environment(root);
  for (const auto& [name, input] : spec.inputs) {
    if (YamlNode* inputs = root.find("inputs")) rewrite_input(at(*inputs, name), input);
  }
  for (const char* group : {"outputs", "services"}) {
    YamlNode* map = root.find(group);
    if (!map) continue;
    const bool is_output = std::string_view(group) == "outputs";
    std::erase_if(map->entries, [&](const Entry& entry) {
      return is_output ? !spec.outputs.contains(entry.key) : !spec.services.contains(entry.key);
    });
    for (Entry& entry : map->entries) {
      drop(entry.value, is_output ? "description" : "$schema");
      drop(entry.value, "$schema");
      if (!is_output) rewrite_service(entry.value);
    }
  }
  fit_all(root, {});
}

}  // namespace

AzureFile render_for_azure(const JobFile& job) {
  if (!job.tree) return {};
  YamlNode root = *job.tree;
  settings_to_properties(root);
  const bool is_command = job.kind == FileKind::command && !has_errors(job.findings);
  if (is_command) rewrite_command_job(root, job.spec);
  AzureFile out{write_yaml(root), azure_refusals(root, job.kind)};
  const YamlNode* environment = root.find("environment");
  if (is_command && environment->text == "azureml:host@latest") {
    out.findings.push_back(
        finding_at(Severity::warning, environment->place, "environment",
                   "Azure ML: environment: 'host' has to be made there first, or write "
                   "'environment: {image: …}'"));
  }
  return out;
}

}  // namespace muster
