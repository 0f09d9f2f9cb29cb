#include "templates/azure/azure.h"

#include <algorithm>
#include <iterator>

#include "scheduler/model/names.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/settings/setting_table.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/value.h"

namespace muster {
namespace {

// ---- the command job as the client of Azure ML (azure-ai-ml) reads it: stricter than muster's own
// reading in types and nulls

enum class Takes { anything, text, whole, flag, word, list_of_texts, text_or_list, map };

struct AzurePlace {
  std::string_view paths;  // alike, between blanks; `*` is any key, `**` any below
  Takes takes = Takes::anything;
  std::string_view words{};  // that it may be, for `word`
  bool takes_null = false;
};

using KeyPath = std::vector<std::string_view>;  // from the top; a key may hold dots

constexpr std::string_view input_modes = "ro_mount download direct";
constexpr std::string_view input_types =
    "uri_folder uri_file mltable mlflow_model custom_model triton_model";

constexpr AzurePlace places[] = {
    {"$schema environment environment.conda_file environment.tags.* "
     "environment.properties.* environment.inference_config.** inputs.* inputs.*.value "
     "outputs.*.version"},
    {"$schema.** environment.conda_file.** environment.name environment.version "
     "environment_variables.* resources.properties.** services.*.properties.**",
     Takes::anything,
     {},
     true},
    {"type", Takes::word, "command"},
    {"name display_name description experiment_name parent_job_name command code "
     "environment.image environment.build.path environment.build.dockerfile_path "
     "environment.description environment.datastore compute resources.instance_type "
     "resources.shm_size distribution.address distribution.head_node_additional_args "
     "distribution.worker_node_additional_args inputs.*.path inputs.*.path_on_compute "
     "inputs.*.datastore outputs.*.path outputs.*.name services.*.type services.*.nodes "
     "services.*.log_dir services.*.ssh_public_keys identity.client_id identity.object_id "
     "identity.msi_resource_id",
     Takes::text},
    {"tags properties environment.build environment.tags environment.properties "
     "environment.inference_config environment_variables resources resources.properties "
     "limits distribution inputs outputs services services.* services.*.properties "
     "queue_settings identity",
     Takes::map},
    {"tags.* properties.*", Takes::text, {}, true},
    {"environment.os_type", Takes::word, "linux windows"},
    {"resources.instance_count resources.max_instance_count "
     "distribution.process_count_per_instance distribution.worker_count "
     "distribution.parameter_server_count distribution.port distribution.dashboard_port "
     "services.*.port",
     Takes::whole},
    {"resources.docker_args", Takes::text_or_list},
    {"resources.locations", Takes::list_of_texts},
    {"limits.timeout", Takes::whole},
    {"distribution.type", Takes::word, "pytorch mpi tensorflow ray"},
    {"distribution.include_dashboard", Takes::flag},
    {"inputs.*.type outputs.*.type", Takes::word, input_types},
    {"inputs.*.mode", Takes::word, "ro_mount download direct eval_mount eval_download"},
    {"outputs.*", Takes::map, {}, true},
    {"outputs.*.mode", Takes::word, "rw_mount mount upload direct"},
    {"queue_settings.job_tier", Takes::word, "null spot basic standard premium"},
    {"queue_settings.priority", Takes::word, "low medium high"},
    {"identity.type", Takes::word, "user_identity managed managed_identity aml_token"}};

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
  if (place.paths == "identity.type") {
    const std::vector<std::string> shown = {"UserIdentity", "ManagedIdentity", "AMLToken"};
    if (std::ranges::find(shown, word) != shown.end()) return true;
  }
  if (place.paths != "type") word = lower_case(word);
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

// nullptr: Azure ML has no such key.
const AzurePlace* azure_place(const KeyPath& path) {
  static constexpr AzurePlace passed_over{""};
  if (is_shown_only(path)) return &passed_over;
  const auto fits = [&](std::string_view pattern) { return matches(pattern, path); };
  const auto* found = std::ranges::find_if(places, [&](const AzurePlace& place) {
    return std::ranges::any_of(words_in(place.paths), fits);
  });
  return found == std::end(places) ? nullptr : found;
}

// A literal that the client reads as a date, which no input can be.
bool is_date_in_azure(const YamlNode& value) {
  const bool is_plain = value.kind == YamlNode::Kind::scalar && !value.quoted;
  return is_plain && other_in_azure(value.text) == "Azure ML reads a date";
}

// What is expected there instead, by `Takes`; empty where the value is taken as it is.
std::string azure_misfit(const YamlNode& value, const AzurePlace& place) {
  if (value.kind == YamlNode::Kind::null) return place.takes_null ? "" : "a value";
  const bool is_flag = value.kind == YamlNode::Kind::scalar && boolean_word(value.text);
  const std::pair<bool, std::string> forms[] = {
      {true, ""},
      {is_text(value), "text"},
      {is_whole(value), "a whole number"},
      {is_flag, "true or false"},
      {is_word_there(value, place), enumerated(words_of(place), " or ")},
      {all_texts(value), "a list of texts"},
      {is_text(value) || all_texts(value), "text or a list of texts"},
      {value.kind == YamlNode::Kind::map, "a map"}};
  const auto& [is_taken, wanted] = forms[static_cast<std::size_t>(place.takes)];
  return is_taken ? "" : wanted;
}

// Writes a value so that it is taken and means the same here, where that can be.
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
  if (place.takes == Takes::whole) write_whole(value, place.paths == "limits.timeout");
}

// ---- what it refuses in a file that is right for muster

class AzureCheck {
 public:
  explicit AzureCheck(const YamlNode& root) : root_(root) {}

  std::vector<Finding> findings() {
    walk(root_, {});
    check_environment();
    check_code();
    check_identity();
    check_distribution();
    for (const Entry& each : entries_of("inputs")) check_input(each);
    for (const Entry& each : entries_of("outputs")) check_output(each);
    for (const Entry& each : entries_of("services")) check_service(each);
    sort_findings(out_);
    return std::move(out_);
  }

 private:
  void refuse(const Place& place, const std::string& key, const std::string& message,
              const std::string& suggestion = "") {
    out_.push_back(
        finding_at(Severity::error, place, key, "Azure ML: " + key + ": " + message, suggestion));
  }

  const std::vector<Entry>& entries_of(const char* group) const {
    static const std::vector<Entry> none;
    const YamlNode* map = root_.find(group);
    return map ? map->entries : none;
  }

  void walk(const YamlNode& map, const KeyPath& path) {
    for (const Entry& entry : map.entries) {
      KeyPath below = path;
      below.push_back(entry.key);
      const std::string key = joined(below, ".");
      const AzurePlace* place = azure_place(below);
      const std::string expected = place ? azure_misfit(entry.value, *place) : "";
      if (!place) {
        refuse(entry.place, key, "there is no such key");
      } else if (!expected.empty()) {
        const bool is_open = expected == "text" && entry.value.kind == YamlNode::Kind::scalar;
        refuse(entry.value.place, key, "expected " + expected + ", got " + describe(entry.value),
               is_open ? "quote it" : "");
      } else if (!place->paths.empty()) {
        walk(entry.value, below);
      }
    }
  }

  // `azureml:NAME` alone names nothing there.
  void check_version(const YamlNode& value, const std::string& key) {
    const std::string& text = value.text;
    if (!is_asset_reference(text) || text.find_first_of(":@", 8) != text.npos) return;
    refuse(value.place, key, quoted_text(text) + " has no version",
           "write " + text + ":VERSION or " + text + "@LABEL");
  }

  void check_environment() {
    const YamlNode* value = root_.find("environment");
    if (!value) {
      refuse(root_.place, "environment", "required", "write 'environment: {image: …}'");
    } else if (value->text == "azureml:host") {
      refuse(value->place, "environment", "there is no environment 'host'",
             "write 'environment: {image: …}' or azureml:NAME:VERSION");
    } else if (value->kind == YamlNode::Kind::map && !value->find("image") &&
               !value->find("build")) {
      refuse(value->place, "environment", "'image' or 'build' is required");
    } else {
      check_version(*value, "environment");
    }
  }

  void check_code() {
    const YamlNode* value = root_.find("code");
    if (!value) return;
    if (is_asset_reference(value->text)) {
      refuse(value->place, "code", "a code asset is named by its full id only", "name a directory");
    }
    if (value->text.starts_with("git")) {
      refuse(value->place, "code", "git is not taken by the present client", "name a directory");
    }
  }

  void check_identity() {
    const YamlNode* identity = root_.find("identity");
    const YamlNode* type = identity ? identity->find("type") : nullptr;
    if (identity && !type) refuse(identity->place, "identity", "'type' is required");
    if (!type || folded(type->text).starts_with("managed")) return;
    for (const char* key : {"client_id", "object_id", "msi_resource_id"}) {
      const YamlNode* value = identity->find(key);
      if (!value) continue;
      refuse(value->place, std::string("identity.") + key, "goes with type managed only");
    }
  }

  void check_distribution() {
    const YamlNode* spread = root_.find("distribution");
    const YamlNode* type = spread ? spread->find("type") : nullptr;
    const YamlNode* count = spread ? spread->find("worker_count") : nullptr;
    if (!type || !count || folded(type->text) == "tensorflow") return;
    refuse(count->place, "distribution.worker_count", "goes with type tensorflow only");
  }

  void check_name(const Entry& entry, const std::string& key) {
    const bool is_name =
        is_word_of(entry.key, "_") && !is_made_of(entry.key.substr(0, 1), "0123456789");
    if (!is_name) refuse(entry.place, key, "expected letters, digits and '_', a digit not first");
  }

  void check_input(const Entry& entry) {
    const std::string key = "inputs." + entry.key;
    check_name(entry, key);
    if (is_date_in_azure(entry.value)) {
      refuse(entry.value.place, key, "a date is no value", "quote it");
    }
    if (entry.value.kind != YamlNode::Kind::map) return;
    const YamlNode* path = entry.value.find("path");
    if (path) check_version(*path, key + ".path");
    if (!path && !entry.value.find("value")) refuse(entry.value.place, key, "'path' is required");
  }

  void check_output(const Entry& entry) {
    const std::string key = "outputs." + entry.key;
    check_name(entry, key);
    const YamlNode* version = entry.value.find("version");
    if (version && !entry.value.find("name")) {
      refuse(version->place, key + ".version", "goes with 'name' only");
    }
  }

  void check_service(const Entry& entry) {
    const std::string key = "services." + entry.key;
    const YamlNode* type = entry.value.find("type");
    const std::string word = type ? lower_case(type->text) : "";
    for (const auto& [name, owner] :
         {std::pair{"log_dir", "tensor_board"}, {"ssh_public_keys", "ssh"}}) {
      const YamlNode* value = entry.value.find(name);
      if (value && word != owner) {
        refuse(value->place, key + '.' + name, std::string("goes with type ") + owner + " only");
      }
    }
    const YamlNode* nodes = entry.value.find("nodes");
    if (nodes && nodes->text != "all") {
      refuse(nodes->place, key + ".nodes", "expected 'all', got " + describe(*nodes),
             "leave it out");
    }
  }

  const YamlNode& root_;
  std::vector<Finding> out_;
};

// ---- a job file in its words

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

std::vector<Finding> azure_refusals(const YamlNode& root, FileKind kind) {
  if (kind == FileKind::command) return AzureCheck(root).findings();
  const YamlNode* settings = root.find("muster");
  if (!settings) return {};
  return {finding_at(Severity::error, settings->place, "muster",
                     "Azure ML: muster: there is no such key")};
}

std::vector<Finding> azure_findings(const JobFile& job) {
  if (!job.tree || job.tree->kind != YamlNode::Kind::map) return {};
  std::vector<Finding> found = azure_refusals(*job.tree, job.kind);
  const std::vector<Finding> left = render_for_azure(job).findings;
  for (Finding& each : found) {
    const bool stays = std::ranges::any_of(
        left, [&](const Finding& other) { return other.message == each.message; });
    if (stays || !each.suggestion.empty()) continue;
    each.suggestion = "`muster job render --for azure` writes it as Azure ML takes it";
  }
  return found;
}

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
