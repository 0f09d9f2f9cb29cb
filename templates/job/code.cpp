// What a job runs with: `code`, `environment_variables`, `services`; `environment`: a name, an
// inline image, or a file read in place.
#include <algorithm>

#include "scheduler/model/exec_limit.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/job/command_job.h"
#include "templates/yaml/path_form.h"

namespace muster {

namespace {

bool is_git_url(std::string_view text) {
  return text.starts_with("git+") || text.starts_with("git://");
}

void read_code_text(const Value& value, const std::string& text, Reading& reading, JobSpec& spec) {
  if (value.is_to_be_replaced(text, "a directory")) return;
  if (is_git_url(text)) {
    spec.git_url = text;
    return;
  }
  const auto form = path_form(text);
  if (form && form->kind == PathKind::asset) {
    spec.code = form->path;
    return;
  }
  if (!form || form->kind != PathKind::local) {
    value.error("expected a directory, git+<url> or azureml:<asset>, got " + quoted_text(text));
    return;
  }
  spec.code = Reading::local_path(value, form->path);
  if (!reading.options.files.kind_of) return;
  const OnDisk found = reading.options.files.kind_of(spec.code);
  if (found == OnDisk::missing) value.error("there is no directory " + quoted_text(spec.code));
  if (found == OnDisk::file) {
    value.error(quoted_text(spec.code) + " is a file; expected the directory it is in");
  }
}

bool is_name_of(std::string_view name, std::string_view also) {
  return is_word_of(name, also) && (name.front() < '0' || name.front() > '9');
}

// Variables that muster sets on every rank, or for one type of distribution.
bool is_rank_variable(std::string_view name) {
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  const auto names = words_in(
      "MASTER_ADDR MASTER_PORT WORLD_SIZE RANK LOCAL_RANK NODE_RANK LOCAL_WORLD_SIZE TF_CONFIG "
      "CCP_NODES AZUREML_RUN_ID AZUREML_EXPERIMENT_ID AZUREML_CR_NODE_RANK AZUREML_PROCESS_NAME "
      "MUSTER_JOB MUSTER_ATTEMPT MUSTER_CHECKPOINT_DIR MUSTER_CHECKPOINT_EVERY_STEPS "
      "MUSTER_CHECKPOINT_EVERY_SECONDS MUSTER_RESUME_FROM MUSTER_HEARTBEAT MUSTER_METRICS "
      "MUSTER_LEASE MUSTER_HOSTFILE");
  const auto prefixes =
      words_in("AZ_BATCH_ AZ_BATCHAI_ GROUP_ ROLE_ TORCHELASTIC_ OMPI_COMM_WORLD_");
  return std::ranges::any_of(prefixes, begins) || std::ranges::count(names, name) > 0;
}

bool looks_like_text(const YamlNode& node) {
  return node.quoted || (!boolean_word(node.text) && !real_number(node.text));
}

const std::vector<std::string> service_types = {"ssh", "tensor_board", "jupyter_lab", "vs_code",
                                                "custom"};

void read_service_type(const Value& type, ServiceSpec& service) {
  const auto text = type.text();
  if (!text) return;
  std::string word = folded(*text);
  const bool old = word == "tensorboard" || *text == "VS_code";
  if (word == "tensorboard") word = "tensor_board";
  if (old) type.note("deprecated; write '" + word + "'");
  store(service.type, word == "tensor_board" ? std::optional(word) : type.word(service_types));
}

void read_service_properties(const Value& value, ServiceSpec& service) {
  MapReader map(value);
  for (const Value& each : map.entries()) {
    const auto text = each.text();
    const std::string key = folded(each.key());
    if (key == "logdir" || key == "sshpublickeys") map.take(each.key());
    if (!text || key != "logdir") continue;
    each.note("deprecated; write 'log_dir' beside 'type'");
    service.log_dir = *text;
  }
  store(service.command, map.take("command").text());
  map.finish();
}

// What `az ml job show` adds: pages of the portal, and where a service was.
bool is_shown_by_azure(const Value& value) {
  const YamlNode* type = value.is_map() ? value.node().find("type") : nullptr;
  if (!type && value.is_map()) type = value.node().find("job_service_type");
  const std::string word = type ? folded(type->text) : "";
  return word == "studio" || word == "tracking" ||
         (value.is_map() && value.node().find("endpoint") != nullptr);
}

ServiceSpec read_service(const Value& value) {
  ServiceSpec service;
  MapReader map(value);
  const Value old_type = map.take("job_service_type");
  const Value type = map.take("type");
  if (old_type.given()) old_type.note("deprecated; write 'type'");
  read_service_type(type.given() ? type : old_type, service);
  if (value.is_map() && !type.present() && !old_type.present()) value.error("'type' is required");
  service.port = map.take("port").integer(1, 65535);
  const Value nodes = map.take("nodes");
  service.nodes = nodes.text().value_or("");
  const auto index = whole_number(service.nodes);
  if (folded(service.nodes) == "all") service.nodes = "all";
  if (index && *index >= 0) service.nodes = std::to_string(*index);
  if (!service.nodes.empty() && service.nodes != "all" && (!index || *index < 0)) {
    nodes.misfit("'all' or the number of a node");
  }
  store(service.log_dir, map.take("log_dir").text());
  const Value keys = map.take("ssh_public_keys");
  keys.text();
  if (keys.given()) keys.note("ignored; accounts on the nodes are the site's");
  read_service_properties(map.take("properties"), service);
  if (service.type == "custom" && service.command.empty() && !service.port) {
    value.error("'properties.command', or the 'port' where the job itself listens, is required");
  }
  map.take("$schema");
  map.ignore({"status", "error_message"}, "written by Azure ML when it shows a job; ignored");
  map.finish();
  return service;
}

// ---- environment

std::string existing_path(const Value& value, Reading& reading, OnDisk wanted) {
  const auto text = value.text();
  if (!text || value.is_to_be_replaced(*text, "a path")) return "";
  const auto form = path_form(*text);
  if (!form || form->kind != PathKind::local) return *text;
  const std::string path = Reading::local_path(value, form->path);
  const bool checked = static_cast<bool>(reading.options.files.kind_of);
  if (checked && reading.options.files.kind_of(path) != wanted) {
    value.error(std::string("there is no ") + (wanted == OnDisk::file ? "file " : "directory ") +
                quoted_text(path));
  }
  return path;
}

void read_build(const Value& value, Reading& reading, EnvironmentSpec& spec) {
  if (!value.present()) return;
  MapReader build(value);
  const Value old_path = build.take("local_path");
  const Value path = build.take("path");
  if (old_path.given()) old_path.note("deprecated; write 'build.path'");
  if (value.is_map() && !path.present() && !old_path.present()) value.error("'path' is required");
  spec.build_path = existing_path(path.given() ? path : old_path, reading, OnDisk::directory);
  spec.dockerfile_path = build.take("dockerfile_path").text().value_or("Dockerfile");
  build.finish();
}

void read_inline(const Value& value, Reading& reading, EnvironmentSpec& spec) {
  MapReader map(value);
  const Value image = map.take("image");
  if (const auto text = image.text()) {
    spec.image = *text;
    image.is_to_be_replaced(*text, "an image");
  }
  const Value conda = map.take("conda_file");
  const bool is_text = conda.is_scalar() && mentions(conda.node().text, "\n");
  if (conda.is_map()) spec.conda_file = write_yaml(conda.node());
  if (is_text) spec.conda_file = conda.node().text;
  if (!conda.is_map() && !is_text) spec.conda_file = existing_path(conda, reading, OnDisk::file);
  const Value build = map.take("build");
  read_build(build, reading, spec);
  const Value os_type = map.take("os_type");
  if (const auto type = os_type.word({"linux", "windows"}); type == "windows") {
    os_type.error("windows environments cannot run here");
  }
  if (value.is_map() && !image.present() && !build.present() && !conda.present()) {
    value.error("expected 'image' or 'build'");
  }
  if (image.present() && build.present()) build.error("expected 'image' or 'build', not both");
  map.ignore({"name", "version", "inference_config"}, "ignored in an inline environment");
  ignore_asset_keys(map);
  for (const char* key : {"$schema", "type", "description", "tags", "properties"}) map.take(key);
  map.finish();
}

void read_reference(const Value& value, const std::string& text, Reading& reading,
                    EnvironmentSpec& spec) {
  if (value.is_to_be_replaced(text, "an environment")) return;
  if (text.starts_with("file:")) {
    const auto file = reading.load(value, text.substr(5));
    if (file && !file->is_map()) value.error(quoted_text(text) + " does not hold an environment");
    if (file && file->is_map()) read_inline(*file, reading, spec);
    return;
  }
  const std::string asset = asset_of_resource_id(text);
  spec.reference = asset.empty() ? text : asset;
  if (!asset.empty()) return;
  const bool registry = text.starts_with("azureml://registries/");
  if (registry || is_asset_reference(text)) return;
  if (text.find("/environments/") != std::string::npos && text.starts_with("azureml:/")) return;
  value.misfit("azureml:<name>[:<version>|@<label>], file:<path> or a map with 'image'",
               is_asset_reference("azureml:" + text) ? "did you mean 'azureml:" + text + "'?" : "");
}

}  // namespace

void read_code(const Value& value, Reading& reading, JobSpec& spec) {
  if (!value.is_map()) {
    if (const auto text = value.text()) read_code_text(value, *text, reading, spec);
    return;
  }
  value.note("deprecated; write 'code: <directory>'");
  MapReader map(value);
  for (const char* key : {"local_path", "directory"}) {
    const Value path = map.take(key);
    if (const auto text = path.text()) read_code_text(path, *text, reading, spec);
  }
  map.finish();
}

void read_environment_variables(const Value& value, JobSpec& spec) {
  spec.environment_variables = value.text_map();
  if (!value.is_map()) return;
  for (const Value& each : MapReader(value).entries()) {
    if (!is_name_of(each.key(), "_.-")) {
      each.error(quoted_text(each.key()) + " is not the name of an environment variable");
    } else if (!is_name_of(each.key(), "_")) {  // a program can read it, a shell has no word for it
      each.note("set as it is; a shell cannot read " + quoted_text(each.key()));
    } else if (is_rank_variable(each.key())) {
      each.warning("hides the variable that muster sets on every rank");
    }
    const auto found = spec.environment_variables.find(each.key());
    if (found != spec.environment_variables.end() &&
        found->first.size() + found->second.size() + 2 > exec_string_limit_bytes) {
      each.error("has " + std::to_string(found->second.size()) +
                 " bytes: the kernel passes on at most 128 KiB in one variable; pass it in a file");
    }
    note_null_word(each);
    if (!note_other_reading(each) && each.is_scalar() && !looks_like_text(each.node())) {
      each.note("quote it: Azure ML may reject a value that is not text");
    }
  }
}

void read_services(const Value& value, JobSpec& spec) {
  for (const Value& each : MapReader(value).entries()) {
    if (is_shown_by_azure(each)) {
      each.note("written by Azure ML when it shows a job; ignored");
      continue;
    }
    // Part of a path on the node; `muster forward` takes it where others give a port.
    const std::string& name = each.key();
    if (name.size() > 40 || !is_word_of(name, "-_") ||
        std::isalpha(static_cast<unsigned char>(name[0])) == 0) {
      each.error("a service's name is a letter and at most 39 letters, digits, '-' and '_'");
    }
    spec.services[each.key()] = read_service(each);
  }
}

void ignore_asset_keys(MapReader& map) {
  map.ignore({"datastore", "id", "auto_delete_setting", "creation_context", "latest_version",
              "intellectual_property"},
             "Azure ML's own; ignored");
}

void read_environment(const Value& value, Reading& reading, EnvironmentSpec& spec) {
  if (!value.present()) return;
  if (value.is_map()) {
    read_inline(value, reading, spec);
  } else if (const auto text = value.text()) {
    read_reference(value, *text, reading, spec);
  }
}

}  // namespace muster
