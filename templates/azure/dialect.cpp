#include "templates/azure/dialect.h"

#include <algorithm>
#include <iterator>

#include "scheduler/text/duration.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/value.h"
#include "templates/yaml/yaml_1_1.h"

namespace muster {
namespace {

using Takes = AzureTakes;

constexpr std::string_view input_modes = "ro_mount download direct";
constexpr std::string_view input_types =
    "uri_folder uri_file mltable mlflow_model custom_model triton_model";

constexpr AzurePlace places[] = {
    {"$schema"},
    {"$schema.**", Takes::anything, {}, true},
    {"type", Takes::word, "command"},
    {"name", Takes::text},
    {"display_name", Takes::text},
    {"description", Takes::text},
    {"experiment_name", Takes::text},
    {"parent_job_name", Takes::text},
    {"tags", Takes::map},
    {"tags.*", Takes::text, {}, true},
    {"properties", Takes::map},
    {"properties.*", Takes::text, {}, true},
    {"command", Takes::text},
    {"code", Takes::text},
    {"environment"},
    {"environment.image", Takes::text},
    {"environment.conda_file"},
    {"environment.conda_file.**", Takes::anything, {}, true},
    {"environment.build", Takes::map},
    {"environment.build.path", Takes::text},
    {"environment.build.dockerfile_path", Takes::text},
    {"environment.os_type", Takes::word, "linux windows"},
    {"environment.name", Takes::anything, {}, true},
    {"environment.version", Takes::anything, {}, true},
    {"environment.description", Takes::text},
    {"environment.tags", Takes::map},
    {"environment.tags.*"},
    {"environment.properties", Takes::map},
    {"environment.properties.*"},
    {"environment.inference_config.**"},
    {"environment.inference_config", Takes::map},
    {"environment.datastore", Takes::text},
    {"environment_variables", Takes::map},
    {"environment_variables.*", Takes::anything, {}, true},
    {"compute", Takes::text},
    {"resources", Takes::map},
    {"resources.instance_count", Takes::whole},
    {"resources.instance_type", Takes::text},
    {"resources.max_instance_count", Takes::whole},
    {"resources.shm_size", Takes::text},
    {"resources.docker_args", Takes::text_or_list},
    {"resources.locations", Takes::list_of_texts},
    {"resources.properties", Takes::map},
    {"resources.properties.**", Takes::anything, {}, true},
    {"limits", Takes::map},
    {"limits.timeout", Takes::whole},
    {"distribution", Takes::map},
    {"distribution.type", Takes::word, "pytorch mpi tensorflow ray"},
    {"distribution.process_count_per_instance", Takes::whole},
    {"distribution.worker_count", Takes::whole},
    {"distribution.parameter_server_count", Takes::whole},
    {"distribution.address", Takes::text},
    {"distribution.port", Takes::whole},
    {"distribution.dashboard_port", Takes::whole},
    {"distribution.include_dashboard", Takes::flag},
    {"distribution.head_node_additional_args", Takes::text},
    {"distribution.worker_node_additional_args", Takes::text},
    {"inputs", Takes::map},
    {"inputs.*"},
    {"inputs.*.value"},
    {"inputs.*.type", Takes::word, input_types},
    {"inputs.*.mode", Takes::word, "ro_mount download direct eval_mount eval_download"},
    {"inputs.*.path", Takes::text},
    {"inputs.*.path_on_compute", Takes::text},
    {"inputs.*.datastore", Takes::text},
    {"outputs", Takes::map},
    {"outputs.*", Takes::map, {}, true},
    {"outputs.*.type", Takes::word, input_types},
    {"outputs.*.mode", Takes::word, "rw_mount mount upload direct"},
    {"outputs.*.path", Takes::text},
    {"outputs.*.name", Takes::text},
    {"outputs.*.version"},
    {"services", Takes::map},
    {"services.*", Takes::map},
    {"services.*.type", Takes::text},
    {"services.*.port", Takes::whole},
    {"services.*.nodes", Takes::text},
    {"services.*.log_dir", Takes::text},
    {"services.*.ssh_public_keys", Takes::text},
    {"services.*.properties", Takes::map},
    {"services.*.properties.**", Takes::anything, {}, true},
    {"queue_settings", Takes::map},
    {"queue_settings.job_tier", Takes::word, "null spot basic standard premium"},
    {"queue_settings.priority", Takes::word, "low medium high"},
    {"identity", Takes::map},
    {"identity.type", Takes::word, "user_identity managed managed_identity aml_token"},
    {"identity.client_id", Takes::text},
    {"identity.object_id", Takes::text},
    {"identity.msi_resource_id", Takes::text},
};

// Written by Azure ML when it shows a job; its client passes over them.
constexpr std::string_view shown_only[] = {"id", "status", "creation_context", "log_files",
                                           "parameters"};
constexpr std::string_view shown_of_service[] = {"endpoint", "status", "error_message"};

bool matches(std::string_view pattern, const KeyPath& path) {
  for (const std::string_view key : path) {
    const std::string_view part = take_until(pattern, '.');
    if (part == "**") return true;
    if (part.empty() || (part != "*" && part != key)) return false;
  }
  return pattern.empty();
}

bool is_shown_only(const KeyPath& path) {
  const bool of_service = path.size() == 3 && path[0] == "services";
  return std::ranges::find(shown_only, path[0]) != std::end(shown_only) ||
         (of_service && std::ranges::find(shown_of_service, path[2]) != std::end(shown_of_service));
}

bool is_text(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar) return false;
  return node.quoted || is_text_in_azure(node.text);
}

bool is_whole(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar) return false;
  const bool plain = is_made_of(node.text, "0123456789-");
  return plain ? whole_number(node.text).has_value()
               : !node.quoted && real_number(node.text) && mentions(node.text, ".");
}

std::vector<std::string> words_of(const AzurePlace& place) {
  const auto words = words_in(place.words);
  return {words.begin(), words.end()};
}

bool is_word_there(const YamlNode& node, const AzurePlace& place) {
  std::string word = node.text;
  if (place.path == "identity.type") {
    const std::vector<std::string> shown = {"UserIdentity", "ManagedIdentity", "AMLToken"};
    if (std::ranges::find(shown, word) != shown.end()) return true;
  }
  if (place.path != "type") word = lower_case(word);
  const auto words = words_of(place);
  return is_text(node) && std::ranges::find(words, word) != words.end();
}

bool all_texts(const YamlNode& node) {
  return node.kind == YamlNode::Kind::list && std::ranges::all_of(node.items, is_text);
}

// In the case of the list, with its underscores.
void write_word(YamlNode& value, const AzurePlace& place) {
  if (value.kind != YamlNode::Kind::scalar) return;
  for (const std::string& each : words_of(place)) {
    if (folded(each) == folded(value.text)) value = scalar_node(each, value.place, false);
  }
}

// A number for what people write with a unit: `24h`.
void write_whole(YamlNode& value, bool is_time) {
  auto number = whole_number(value.text);
  if (const auto time = is_time && !number ? parse_duration(value.text) : std::nullopt) {
    number = std::chrono::duration_cast<Seconds>(*time).count();
  }
  if (number) value = scalar_node(std::to_string(*number), value.place, false);
}

}  // namespace

const AzurePlace* azure_place(const KeyPath& path) {
  static constexpr AzurePlace passed_over{""};
  if (is_shown_only(path)) return &passed_over;
  const auto* found = std::ranges::find_if(
      places, [&](const AzurePlace& place) { return matches(place.path, path); });
  return found == std::end(places) ? nullptr : found;
}

bool is_date_in_azure(const YamlNode& value) {
  const bool is_plain = value.kind == YamlNode::Kind::scalar && !value.quoted;
  return is_plain && other_in_azure(value.text) == "Azure ML reads a date";
}

std::string azure_misfit(const YamlNode& value, const AzurePlace& place) {
  if (value.kind == YamlNode::Kind::null) return place.takes_null ? "" : "a value";
  switch (place.takes) {
    case Takes::anything:
      return "";
    case Takes::text:
      return is_text(value) ? "" : "text";
    case Takes::whole:
      return is_whole(value) ? "" : "a whole number";
    case Takes::flag:
      return value.kind == YamlNode::Kind::scalar && boolean_word(value.text) ? ""
                                                                              : "true or false";
    case Takes::word:
      return is_word_there(value, place) ? "" : enumerated(words_of(place), " or ");
    case Takes::list_of_texts:
      return all_texts(value) ? "" : "a list of texts";
    case Takes::text_or_list:
      return is_text(value) || all_texts(value) ? "" : "text or a list of texts";
    case Takes::map:
      return value.kind == YamlNode::Kind::map ? "" : "a map";
  }
  return "";
}

void fit_for_azure(YamlNode& value, const AzurePlace& place) {
  if (place.takes == Takes::word) return write_word(value, place);
  if (azure_misfit(value, place).empty()) return;
  const bool is_scalar = value.kind == YamlNode::Kind::scalar;
  const bool is_one = value.kind == YamlNode::Kind::list && value.items.size() == 1;
  if (place.takes == Takes::text && is_one) {
    const YamlNode only = value.items.front();
    value = only;
    fit_for_azure(value, place);
  } else if (place.takes == Takes::list_of_texts && is_scalar) {
    YamlNode list{YamlNode::Kind::list, value.place, "", false, {value}, {}};
    value = std::move(list);
  }
  for (YamlNode& item : value.items) item.quoted |= item.kind == YamlNode::Kind::scalar;
  if (!is_scalar) return;
  if (place.takes == Takes::text || place.takes == Takes::text_or_list) value.quoted = true;
  if (place.takes == Takes::whole) write_whole(value, place.path == "limits.timeout");
}

}  // namespace muster
