// What a job runs with: `code`, `environment_variables`, `services`.
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

bool is_variable_name(std::string_view name) {
  return is_word_of(name, "_") && (name.front() < '0' || name.front() > '9');
}

// A program can read it from its environment, a shell has no word for it.
bool is_no_shell_name(std::string_view name) {
  return is_word_of(name, "_.-") && (name.front() < '0' || name.front() > '9');
}

// Variables that muster sets on every rank, or for one type of distribution.
bool is_rank_variable(std::string_view name) {
  static constexpr std::string_view names[] = {"MASTER_ADDR",
                                               "MASTER_PORT",
                                               "WORLD_SIZE",
                                               "RANK",
                                               "LOCAL_RANK",
                                               "NODE_RANK",
                                               "LOCAL_WORLD_SIZE",
                                               "TF_CONFIG",
                                               "CCP_NODES",
                                               "AZUREML_RUN_ID",
                                               "AZUREML_EXPERIMENT_ID",
                                               "AZUREML_CR_NODE_RANK",
                                               "AZUREML_PROCESS_NAME",
                                               "MUSTER_JOB",
                                               "MUSTER_ATTEMPT",
                                               "MUSTER_CHECKPOINT_DIR",
                                               "MUSTER_CHECKPOINT_EVERY_STEPS",
                                               "MUSTER_CHECKPOINT_EVERY_SECONDS",
                                               "MUSTER_RESUME_FROM",
                                               "MUSTER_HEARTBEAT",
                                               "MUSTER_METRICS",
                                               "MUSTER_LEASE"};
  return name.starts_with("AZ_BATCH_") || name.starts_with("AZ_BATCHAI_") ||
         name.starts_with("GROUP_") || name.starts_with("ROLE_") || name == "MUSTER_HOSTFILE" ||
         name.starts_with("TORCHELASTIC_") || name.starts_with("OMPI_COMM_WORLD_") ||
         std::ranges::find(names, name) != std::end(names);
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
    nodes.error("expected 'all' or the number of a node, got " + quoted_text(service.nodes));
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
    if (!is_variable_name(each.key())) {
      if (is_no_shell_name(each.key())) {
        each.note("set as it is; a shell cannot read " + quoted_text(each.key()));
      } else {
        each.error(quoted_text(each.key()) + " is not the name of an environment variable");
      }
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

}  // namespace muster
