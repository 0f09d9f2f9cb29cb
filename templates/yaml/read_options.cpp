#include "templates/yaml/read_options.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

// After every file that a job may include (Reading).
constexpr int first_set_order = 1000000;

// Maps from free names to text: everything after the first dot is one key.
bool holds_free_names(std::string_view key) {
  return key == "properties" || key == "tags" || key == "environment_variables";
}

std::optional<std::size_t> list_index(std::string_view text, std::size_t size) {
  const auto index = read_integer(text);
  if (!index || *index < 0 || *index >= static_cast<std::int64_t>(size)) return std::nullopt;
  return static_cast<std::size_t>(*index);
}

YamlNode& entry_of(YamlNode& map, const std::string& key, const Place& place) {
  if (YamlNode* found = map.find(key)) return *found;
  map.entries.push_back(Entry{key, place, YamlNode{}});
  map.entries.back().value.place = place;
  return map.entries.back().value;
}

// Puts `value` at `path` below `node`; the sentence that says why not, or empty.
std::string put(YamlNode& node, std::string_view path, YamlNode value, int depth) {
  if (depth > max_depth) return "the path has too many parts";
  if (path.empty()) {
    node = std::move(value);
    return "";
  }
  if (node.kind == YamlNode::Kind::null) {
    node.kind = YamlNode::Kind::map;
    node.place = value.place;
  }
  if (node.kind == YamlNode::Kind::scalar) return "there is a plain value above it in the file";
  const std::size_t dot = path.find('.');
  std::string_view head = path.substr(0, dot);
  std::string_view rest = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  if (node.kind == YamlNode::Kind::list) {
    const auto index = list_index(head, node.items.size());
    if (!index) return quoted_text(head) + " is not an item of the list";
    return put(node.items[*index], rest, std::move(value), depth + 1);
  }
  if (node.find(path)) {  // a key that contains dots
    head = path;
    rest = "";
  }
  const Place place = value.place;
  YamlNode& below = entry_of(node, std::string(head), place);
  if (depth == 0 && holds_free_names(head) && !rest.empty()) {
    if (below.kind == YamlNode::Kind::null) below.kind = YamlNode::Kind::map;
    if (below.kind != YamlNode::Kind::map) return "there is a plain value above it in the file";
    entry_of(below, std::string(rest), place) = std::move(value);
    return "";
  }
  return put(below, rest, std::move(value), depth + 1);
}

// Missing maps on the way are made. A value that starts with `{` or `[` is read as YAML, anything
// else is a scalar as written. Numbers select items of a list. Findings name `--set a.b`.
void apply_set(YamlNode& root, const std::string& option, const std::string& base_directory,
               int order, FindingList& findings) {
  const std::size_t equals = option.find('=');
  const std::string path = option.substr(0, equals);
  auto source = std::make_shared<Source>(Source{"--set " + path, base_directory, "", order});
  const Place place{source, 0, 0};
  if (const std::string problem = set_option_problem(option); !problem.empty()) {
    findings.add(Severity::error, place, path, problem);
    return;
  }
  source->text = option.substr(equals + 1);
  YamlNode value = scalar_node(source->text, place, false);
  if (source->text.starts_with('{') || source->text.starts_with('[')) {
    const auto read = read_yaml(source, findings);
    if (!read) return;
    value = *read;
  }
  if (source->text == "null") value.kind = YamlNode::Kind::null;
  if (source->text.find_first_of(std::string("\0\x01\x02", 3)) != std::string::npos) {
    findings.add(Severity::error, place, path, "the value contains a control character");
    return;
  }
  const std::string problem = put(root, path, std::move(value), 0);
  if (!problem.empty()) findings.add(Severity::error, place, path, "cannot be set: " + problem);
}

// A kind of file, and its names.
struct Named {
  FileKind kind;
  std::string_view names;
};

constexpr Named types[] = {
    {FileKind::command, "command"},
    {FileKind::sweep, "sweep"},
    {FileKind::pipeline, "pipeline"},
    {FileKind::command_component, "command_component"},
    {FileKind::pipeline_component, "pipeline_component"},
    {FileKind::compute, "amlcompute virtualmachine"},
    {FileKind::datastore,
     "azure_blob azure_file azure_data_lake_gen2 azure_data_lake_gen1 one_lake rclone local"},
    {FileKind::data_asset, "uri_folder uri_file mltable"}};

// Kinds of Azure ML that parse as YAML here and mean nothing yet.
constexpr Named unsupported_types = {
    FileKind::unsupported,
    "spark automl parallel import finetuning spark_component computeinstance kubernetes "
    "synapsespark custom_model mlflow_model triton_model managed batch online"};

constexpr Named schemas[] = {
    {FileKind::command, "commandjob"},
    {FileKind::sweep, "sweepjob"},
    {FileKind::pipeline, "pipelinejob"},
    {FileKind::command_component, "commandcomponent"},
    {FileKind::pipeline_component, "pipelinecomponent"},
    {FileKind::compute, "amlcompute virtualmachine vmcompute compute"},
    {FileKind::environment, "environment"},
    {FileKind::datastore, "azureblob azurefile azuredatalakegen2 azuredatalakegen1 onelake"},
    {FileKind::data_asset, "data dataset"}};

bool has_name(const Named& named, std::string_view name) {
  return std::ranges::count(words_in(named.names), name) > 0;
}

template <std::size_t n>
std::optional<FileKind> kind_named(const Named (&table)[n], const std::string& name) {
  const auto* found =
      std::ranges::find_if(table, [&](const Named& each) { return has_name(each, name); });
  return found == std::end(table) ? std::nullopt : std::optional(found->kind);
}

// `schedule` of `https://azuremlschemas.azureedge.net/latest/schedule.schema.json`.
std::string schema_name(const Value& root) {
  const YamlNode* schema = root.node().find("$schema");
  if (!schema || schema->kind != YamlNode::Kind::scalar) return "";
  const std::string last = schema->text.substr(schema->text.rfind('/') + 1);
  return last.substr(0, last.find('.'));
}

std::optional<FileKind> kind_from_schema(const Value& root) {
  return kind_named(schemas, folded(schema_name(root)));
}

bool is_component_kind(FileKind kind) {
  return kind == FileKind::command_component || kind == FileKind::pipeline_component;
}

// `type: command` is also how a component says it; only components have these keys.
FileKind job_or_component(FileKind kind, std::optional<FileKind> schema, const Value& root) {
  const bool has_jobs = kind == FileKind::pipeline;
  const FileKind component = has_jobs ? FileKind::pipeline_component : FileKind::command_component;
  if (kind != FileKind::command && kind != FileKind::pipeline) return kind;
  if (schema) return is_component_kind(*schema) ? component : kind;
  const bool marked = root.node().find("is_deterministic") || root.node().find("version");
  return marked ? component : kind;
}

// A map of targets, or a policy. A job's `compute` is a name, or in the old spelling a map with
// `target`.
bool looks_like_cluster(const YamlNode& root) {
  const YamlNode* compute = root.find("compute");
  const bool has_targets =
      compute && compute->kind == YamlNode::Kind::map && !compute->find("target");
  return has_targets ||
         (!compute && (root.find("default") || root.find("policy") || root.find("datastores")));
}

FileKind kind_from_shape(const YamlNode& root) {
  if (root.find("jobs")) return FileKind::pipeline;
  if (root.find("trial")) return FileKind::sweep;
  if (root.find("command")) return FileKind::command;
  if (looks_like_cluster(root)) return FileKind::cluster;
  if (root.find("account_name")) return FileKind::datastore;
  if (root.find("image") || root.find("build") || root.find("conda_file")) {
    return FileKind::environment;
  }
  if (root.find("path") && root.find("name")) return FileKind::data_asset;
  return FileKind::empty;
}

// A kind of Azure ML's that has a schema and that nobody here knows: deployments, schedules, flows.
bool names_other_kind(const Value& root, std::optional<FileKind> schema) {
  const YamlNode* text = root.node().find("$schema");
  const bool other = !schema && text && text->text.ends_with(".schema.json");
  if (other) {
    Value(*text, "$schema", root.findings())
        .unresolved("files of the kind " + quoted_text(schema_name(root)) + " are not supported");
  }
  return other;
}

FileKind kind_from_type(const Value& type, std::optional<FileKind> schema, const Value& root) {
  const std::string& text = type.node().text;
  const std::string word = folded(text);
  if (const auto named = kind_named(types, word)) {
    const FileKind kind = job_or_component(*named, schema, root);
    if (schema && *schema != kind) {
      type.warning("'$schema' says " + std::string(file_kind_name(*schema)) + ", 'type' says " +
                   file_kind_name(kind) + "; 'type' is used");
    }
    return kind;
  }
  if (has_name(unsupported_types, word)) {
    type.unresolved(quoted_text(text) + " is not supported");
  } else if (!names_other_kind(root, schema)) {
    std::vector<std::string> names;
    for (const Named& each : types) {
      for (const std::string_view name : words_in(each.names)) names.emplace_back(name);
    }
    type.error("unknown type " + quoted_text(text), did_you_mean(text, names));
  }
  return FileKind::unsupported;
}

}  // namespace

std::shared_ptr<const YamlNode> parse_with_sets(const std::string& path, std::string_view text,
                                                const ReadOptions& options, FindingList& findings) {
  const auto source =
      std::make_shared<Source>(Source{path, directory_of(absolute_path(path, options.cwd)),
                                      std::string(without_byte_order_mark(text)), 0});
  std::optional<YamlNode> tree = read_yaml(source, findings);
  if (!tree) return nullptr;
  int order = first_set_order;
  for (const std::string& set : options.sets) {
    apply_set(*tree, set, source->directory, order++, findings);
  }
  return std::make_shared<const YamlNode>(std::move(*tree));
}

std::string set_option_problem(const std::string& option) {
  const std::string path = option.substr(0, option.find('='));
  if (path.size() == option.size() || path.empty()) return "expected --set <path>=<value>";
  const bool has_empty_part =
      path.starts_with('.') || path.ends_with('.') || path.find("..") != std::string::npos;
  return has_empty_part ? "cannot be set: the path has an empty part" : "";
}

const char* file_kind_name(FileKind kind) {
  constexpr const char* names[] = {"empty file",     "command job",       "sweep job",
                                   "pipeline job",   "command component", "pipeline component",
                                   "compute",        "environment",       "datastore",
                                   "data asset",     "cluster",           "unsupported file type",
                                   "unreadable file"};
  return names[static_cast<std::size_t>(kind)];
}

bool is_resource(FileKind kind) {
  using enum FileKind;
  return kind == compute || kind == environment || kind == datastore || kind == data_asset ||
         kind == command_component || kind == pipeline_component;
}

FileKind detect_kind(const Value& root) {
  const auto schema = kind_from_schema(root);
  const YamlNode* type = root.node().find("type");
  if (type && type->kind == YamlNode::Kind::scalar) {
    return kind_from_type(Value(*type, "type", root.findings()), schema, root);
  }
  if (type && type->kind != YamlNode::Kind::null) Value(*type, "type", root.findings()).text();
  if (schema) return *schema;
  const FileKind shape = kind_from_shape(root.node());
  if (shape != FileKind::empty) return shape;
  return names_other_kind(root, schema) ? FileKind::unsupported : FileKind::command;
}

}  // namespace muster
