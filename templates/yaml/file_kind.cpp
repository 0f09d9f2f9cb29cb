#include "templates/yaml/file_kind.h"

#include <optional>

#include "scheduler/text/spelling.h"

namespace muster {
namespace {

struct Named {
  std::string_view name;
  FileKind kind;
};

constexpr Named types[] = {
    {"command", FileKind::command},
    {"sweep", FileKind::sweep},
    {"pipeline", FileKind::pipeline},
    {"command_component", FileKind::command_component},
    {"pipeline_component", FileKind::pipeline_component},
    {"amlcompute", FileKind::compute},
    {"virtualmachine", FileKind::compute},
    {"azure_blob", FileKind::datastore},
    {"azure_file", FileKind::datastore},
    {"azure_data_lake_gen2", FileKind::datastore},
    {"azure_data_lake_gen1", FileKind::datastore},
    {"uri_folder", FileKind::data_asset},
    {"uri_file", FileKind::data_asset},
    {"mltable", FileKind::data_asset},
};

// Kinds of Azure ML that parse as YAML here and mean nothing yet.
constexpr std::string_view unsupported_types[] = {
    "spark",           "automl",          "parallel",   "import",       "finetuning",
    "spark_component", "computeinstance", "kubernetes", "synapsespark", "custom_model",
    "mlflow_model",    "triton_model",    "managed",    "batch",        "online"};

constexpr Named schemas[] = {
    {"commandjob", FileKind::command},
    {"sweepjob", FileKind::sweep},
    {"pipelinejob", FileKind::pipeline},
    {"commandcomponent", FileKind::command_component},
    {"pipelinecomponent", FileKind::pipeline_component},
    {"amlcompute", FileKind::compute},
    {"virtualmachine", FileKind::compute},
    {"vmcompute", FileKind::compute},
    {"compute", FileKind::compute},
    {"environment", FileKind::environment},
    {"azureblob", FileKind::datastore},
    {"azurefile", FileKind::datastore},
    {"azuredatalakegen2", FileKind::datastore},
    {"azuredatalakegen1", FileKind::datastore},
    {"data", FileKind::data_asset},
    {"dataset", FileKind::data_asset},
};

std::optional<FileKind> kind_from_schema(const Value& root) {
  const YamlNode* schema = root.node().find("$schema");
  if (!schema || schema->kind != YamlNode::Kind::scalar) return std::nullopt;
  std::string_view last = schema->text;
  last = last.substr(last.rfind('/') + 1);
  last = last.substr(0, last.find('.'));
  for (const Named& named : schemas) {
    if (folded(last) == named.name) return named.kind;
  }
  return std::nullopt;
}

bool is_unsupported(std::string_view type) {
  for (const std::string_view name : unsupported_types) {
    if (folded(type) == name) return true;
  }
  return false;
}

std::vector<std::string> type_names() {
  std::vector<std::string> out;
  for (const Named& named : types) out.emplace_back(named.name);
  return out;
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
  return has_targets || (!compute && (root.find("default") || root.find("policy")));
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
  return FileKind::command;
}

FileKind kind_from_type(const Value& type, std::optional<FileKind> schema, const Value& root) {
  const std::string word = folded(type.node().text);
  for (const Named& named : types) {
    if (word != named.name) continue;
    const FileKind kind = job_or_component(named.kind, schema, root);
    if (schema && *schema != kind) {
      type.warning("'$schema' says " + std::string(file_kind_name(*schema)) + ", 'type' says " +
                   file_kind_name(kind) + "; 'type' is used");
    }
    return kind;
  }
  if (is_unsupported(word)) {
    type.unresolved(quoted_text(type.node().text) + " is not supported");
    return FileKind::unsupported;
  }
  type.error("unknown type " + quoted_text(type.node().text),
             did_you_mean(type.node().text, type_names()));
  return FileKind::unsupported;
}

}  // namespace

const char* file_kind_name(FileKind kind) {
  switch (kind) {
    case FileKind::empty:
      return "empty file";
    case FileKind::command:
      return "command job";
    case FileKind::sweep:
      return "sweep job";
    case FileKind::pipeline:
      return "pipeline job";
    case FileKind::command_component:
      return "command component";
    case FileKind::pipeline_component:
      return "pipeline component";
    case FileKind::compute:
      return "compute";
    case FileKind::environment:
      return "environment";
    case FileKind::datastore:
      return "datastore";
    case FileKind::data_asset:
      return "data asset";
    case FileKind::cluster:
      return "cluster";
    case FileKind::unsupported:
      return "unsupported file type";
    case FileKind::unreadable:
      return "unreadable file";
  }
  return "?";
}

FileKind detect_kind(const Value& root) {
  const auto schema = kind_from_schema(root);
  const YamlNode* type = root.node().find("type");
  if (type && type->kind == YamlNode::Kind::scalar) {
    return kind_from_type(Value(*type, "type", root.findings()), schema, root);
  }
  if (type && type->kind != YamlNode::Kind::null) Value(*type, "type", root.findings()).text();
  return schema ? *schema : kind_from_shape(root.node());
}

}  // namespace muster
