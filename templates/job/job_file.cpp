#include "templates/job/job_file.h"

#include "scheduler/model/names.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/node.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/value.h"

namespace muster {

namespace {

// The built-in environment: the host's own.
constexpr const char* host_environment = "azureml:host";

struct Refusals {
  void refuse(const std::string& key, const std::string& message) {
    found.push_back(finding_about(job, Severity::unresolved, key, message));
  }
  void warn(const std::string& key, const std::string& message) {
    found.push_back(finding_about(job, Severity::warning, key, message));
  }

  const JobFile& job;
  std::vector<Finding> found = {};
};

// Of a path that is not local; empty of one that is.
std::string what_is(PathKind kind) {
  const std::vector<const char*> words = {"",
                                          "",
                                          "data behind a URL is",
                                          "datastores are",
                                          "data assets are",
                                          "outputs of other jobs are",
                                          "registries are"};
  return words.at(static_cast<std::size_t>(kind));
}

// A word that no program takes for an option; the registry knows the rest.
bool is_image_name(std::string_view text) {
  return is_word_of(text.substr(0, 1), "") && is_word_of(text, "-_./:@");
}

void check_environment(const JobSpec& spec, Refusals& out) {
  const EnvironmentSpec& environment = spec.environment;
  const std::string cure = "remove it or use 'environment: azureml:host'";
  if (!environment.image.empty() && !is_image_name(environment.image)) {
    out.refuse("environment.image", "environment.image: " + quoted_text(environment.image) +
                                        " is not the name of an image: [REGISTRY/]NAME[:TAG]");
  }
  if (!environment.conda_file.empty() && environment.image.empty()) {
    out.refuse("environment.conda_file",
               "a conda environment needs 'image', whose conda makes it; " + cure);
  }
  const std::string& reference = environment.reference;
  const bool has_image = !environment.image.empty() || !environment.build_path.empty();
  if (!reference.empty() && reference != host_environment && !has_image) {
    out.warn("environment", "the environment " + quoted_text(reference) +
                                " is not used: the ranks run in the host's own; 'azureml:host' "
                                "says so");
  }
}

void check_data(const JobSpec& spec, Refusals& out) {
  for (const auto& [name, input] : spec.inputs) {
    if (input.path_kind != PathKind::registry || input.mode == InputMode::direct) continue;
    out.refuse("inputs." + name, what_is(input.path_kind) + " not read yet: inputs." + name + " " +
                                     quoted_text(input.path) +
                                     "; use a local path, or 'mode: direct' to pass the text");
  }
  for (const auto& [name, output] : spec.outputs) {
    const bool is_written =
        output.path_kind == PathKind::none || output.path_kind == PathKind::local ||
        output.path_kind == PathKind::datastore || output.path_kind == PathKind::http;
    if (is_written || output.mode == OutputMode::direct) continue;
    out.refuse("outputs." + name, what_is(output.path_kind) + " not written: outputs." + name +
                                      " " + quoted_text(output.path) +
                                      "; name a datastore, or leave 'path' out");
  }
}

void check_code(const JobSpec& spec, Refusals& out) {
  if (spec.code.starts_with("azureml:")) {
    out.refuse("code",
               "code assets are not read yet: " + quoted_text(spec.code) + "; name a directory");
  }
}

// Ranks that come and go need a rendezvous of their own: the program's, by MUSTER_MEMBERS.
void check_elastic(const JobSpec& spec, Refusals& out) {
  const int least = spec.muster.nodes_min;
  const int most = spec.muster.nodes_max;
  const DistributionType type = spec.distribution.type;
  const bool is_restarted = spec.muster.elastic.mode == ElasticMode::restart;
  const bool is_mpi = type == DistributionType::mpi && is_restarted;
  if (least >= most || type == DistributionType::pytorch || is_mpi) return;
  const std::string what = type == DistributionType::none
                               ? "a job without 'distribution'"
                               : "'distribution.type: " + std::string(word(type)) + "'";
  out.refuse(least < spec.instance_count ? "muster.nodes.min" : "muster.nodes.max",
             what + " runs on a fixed number of nodes, got " + std::to_string(least) + " to " +
                 std::to_string(most) +
                 "; write 'distribution: {type: pytorch}', or leave muster.nodes.min, "
                 "muster.nodes.max and resources.max_instance_count out");
}

void check_shape(const JobSpec& spec, Refusals& out) {
  if (spec.instance_count > 1 && spec.recorded.contains("distribution.address")) {
    out.warn("distribution.address", "no cluster is started: the command runs on each of the " +
                                         std::to_string(spec.instance_count) + " nodes");
  }
  for (const auto& [name, service] : spec.services) {
    if (whole_number(service.nodes).value_or(0) < spec.muster.nodes_max) continue;
    out.refuse("services." + name, "the job has no node " + service.nodes + ", from 0");
  }
  check_elastic(spec, out);
  if (!spec.muster.labels.empty()) {
    out.refuse("muster.placement.labels",
               "nodes have no labels yet; name hosts in muster.placement.include");
  }
  const std::string& checkpoint = spec.muster.checkpoint_path;
  if (const auto form = path_form(checkpoint); form && !what_is(form->kind).empty()) {
    out.refuse("muster.checkpoint.path", what_is(form->kind) +
                                             " not written yet: muster.checkpoint.path; name a "
                                             "directory that all nodes see");
  }
}

void check_ignored(const JobSpec& spec, Refusals& out) {
  for (const auto& [path, text] : spec.muster.other) {
    const bool is_used = path == "health.run" || path == "health.failure";
    if (is_used || path.starts_with("debug.") || path.starts_with("data.")) continue;
    out.warn("muster." + path, "muster." + path + " is not implemented");
  }
  if (!spec.instance_types.empty()) {
    out.warn("resources.instance_type",
             "resources.instance_type is not compared with the target's machines yet");
  }
  if (!spec.docker_args.empty()) {
    out.warn("resources.docker_args", "resources.docker_args is not used");
  }
}

const char* file_reason(FileKind kind) {
  using enum FileKind;
  if (kind == sweep) return "sweep jobs are checked but not run yet";
  if (kind == pipeline) return "pipeline jobs are checked but not run yet";
  if (kind == command_component || kind == pipeline_component) {
    return "a component is not a job; a pipeline uses it";
  }
  if (is_resource(kind)) return "the file describes a resource, not a job";
  if (kind == cluster) return "the file describes a cluster, not a job; name it with --cluster";
  return nullptr;  // what is wrong with other files was said where they were read
}

}  // namespace

void give_name(JobSpec& spec, const std::string& name) {
  spec.name = name;
  for (auto& [key, output] : spec.outputs) {
    output.path = replaced(std::move(output.path), "\x01name\x02", name);
  }
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

std::vector<Finding> cannot_run_yet(const JobFile& job) {
  Refusals out{job};
  if (const char* reason = file_reason(job.kind)) out.refuse("", reason);
  if (job.kind == FileKind::command) {
    check_environment(job.spec, out);
    check_data(job.spec, out);
    check_code(job.spec, out);
    check_shape(job.spec, out);
    check_ignored(job.spec, out);
  }
  sort_findings(out.found);
  return std::move(out.found);
}

}  // namespace muster
