#include "templates/job/command_job.h"

#include <algorithm>

#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

// The program, an option and a script: `./train.sh`, `python -u train.py`.
constexpr int words_looked_at = 3;

// A file beside the job file that the command names is on no node without `code`.
void check_own_files(const Value& command, const Reading& reading, const JobSpec& spec) {
  if (!spec.code.empty() || !spec.git_url.empty() || !reading.options.files.kind_of) return;
  const auto is_own = [&](std::string_view word) {
    const std::string path = Reading::local_path(command, std::string(word));
    return word.front() != '/' && reading.options.files.kind_of(path) == OnDisk::file;
  };
  const auto words = words_in(spec.command, " \t\n\v\f\r", words_looked_at);
  const auto own = std::ranges::find_if(words, is_own);
  if (own == words.end()) return;
  command.warning(quoted_text(*own) + " gets to the nodes only with 'code: .'");
}

// A setting where the file says it, in the map or among the properties.
const YamlNode* find_in_file(const Value& root, const std::string& path) {
  const YamlNode* found = root.node().find_path(path);
  return found ? found : root.node().find_path("properties." + path);
}

// A program that does not follow MUSTER_MEMBERS gets other nodes with its next attempt.
void choose_elastic_mode(const Value& root, JobSpec& spec) {
  if (spec.muster.nodes_min >= spec.muster.nodes_max) return;
  if (find_in_file(root, "muster.elastic.mode")) return;
  const bool follows = spec.command.find("muster-train") != std::string::npos;
  spec.muster.elastic.mode = follows ? ElasticMode::live : ElasticMode::restart;
}

// min <= instance_count <= max; one that is not given is the instance count.
void check_nodes(const Value& root, const JobSpec& spec) {
  const MusterSettings& muster = spec.muster;
  const std::string bounds =
      "resources.instance_count (" + std::to_string(spec.instance_count) + "), got ";
  const std::string cure =
      "write a resources.instance_count that is not below muster.nodes.min "
      "and not above muster.nodes.max";
  const auto complain = [&](const YamlNode* node, const char* key, const std::string& message) {
    Value(node ? *node : root.node(), key, root.findings()).error(message, cure);
  };
  const YamlNode* least = find_in_file(root, "muster.nodes.min");
  const YamlNode* most = find_in_file(root, "muster.nodes.max");
  if (least && most && muster.nodes_min > muster.nodes_max) {
    Value(*least, "muster.nodes.min", root.findings())
        .error("expected at most muster.nodes.max (" + std::to_string(muster.nodes_max) +
               "), got " + std::to_string(muster.nodes_min));
    return;
  }
  if (muster.nodes_min > spec.instance_count) {
    complain(least, "muster.nodes.min",
             "expected at most " + bounds + std::to_string(muster.nodes_min));
  }
  const YamlNode* of_azure = root.node().find_path("resources.max_instance_count");
  if (muster.nodes_max < spec.instance_count) {
    complain(most ? most : of_azure, most ? "muster.nodes.max" : "resources.max_instance_count",
             "expected at least " + bounds + std::to_string(muster.nodes_max));
  } else if (most && of_azure && most->text != of_azure->text) {
    Value(*most, "muster.nodes.max", root.findings())
        .error("resources.max_instance_count says " + quoted_text(of_azure->text) + ", got " +
                   quoted_text(most->text),
               "keep one of the two");
  }
}

void check_processes(const Value& distribution, const Value& command, const JobSpec& spec) {
  const bool silent = spec.distribution.type == DistributionType::none && !distribution.given();
  // With remote_start one process on each node is meant: a launcher starts the others.
  if (silent && spec.instance_count > 1 && command.given() && !spec.muster.remote_start) {
    command.warning("without 'distribution' each of the " + std::to_string(spec.instance_count) +
                    " nodes runs one process that gets node variables only");
  }
}

bool is_job_name(std::string_view name) {
  return name.size() <= 255 && is_word_of(name, "_-") && name.front() != '_' && name.front() != '-';
}

// A pipeline of a hundred components stays below it; a component that includes itself does not.
constexpr int max_files = 256;
constexpr std::size_t max_included_bytes = 2 * max_file_bytes;

}  // namespace

void read_command_job(const Value& root, Reading& reading, JobSpec& spec) {
  MapReader job(root);
  read_base_keys(job, spec);
  const Value command = job.require("command");
  read_code(job.take("code"), reading, spec);
  const Value environment = job.take("environment");
  read_environment(environment, reading, spec.environment);
  if (!environment.present()) {
    root.findings().add(Severity::warning, root.node().place, "environment",
                        "no 'environment': the ranks run in the host's own; write 'environment: "
                        "azureml:host' if that is meant");
  }
  read_environment_variables(job.take("environment_variables"), spec);
  read_compute(job.take("compute"), spec);
  if (!root.node().find("compute")) {
    root.findings().add(Severity::note, root.node().place, "compute",
                        "no 'compute': the default target is used");
  }
  read_resources(job.take("resources"), spec);
  read_limits(job.take("limits"), spec);
  read_queue_settings(job.take("queue_settings"), spec);
  read_identity(job.take("identity"), spec);
  read_services(job.take("services"), spec);
  const Value distribution = job.take("distribution");
  read_distribution(distribution, spec);
  read_inputs(job.take("inputs"), DataContext::command_job, reading, spec);
  read_outputs(job.take("outputs"), spec);
  read_settings(job.take("muster"), job.take("properties"), reading, spec);
  read_command(command, nullptr, spec);
  check_own_files(command, reading, spec);
  check_nodes(root, spec);
  choose_elastic_mode(root, spec);
  check_processes(distribution, command, spec);
  check_launchers(command, reading, spec);
  job.finish();
}

void check_name(const Value& value) {
  if (!value.is_scalar()) return;
  const std::string& name = value.node().text;
  if (!value.is_to_be_replaced(name, "a name") && !is_job_name(name)) {
    value.misfit("letters, digits, '_' and '-', beginning with a letter or digit, at most 255");
  }
}

void read_base_keys(MapReader& job, JobSpec& spec) {
  const Value name = job.take("name");
  store(spec.name, name.text());
  check_name(name);
  store(spec.display_name, job.take("display_name").text());
  store(spec.description, job.take("description").text());
  store(spec.experiment_name, job.take("experiment_name").text());
  if (const auto parent = job.take("parent_job_name").text()) {
    spec.recorded["parent_job_name"] = *parent;
  }
  spec.tags = job.take("tags").text_map();
  spec.properties = job.take("properties").text_map();
  job.ignore({"id", "status", "creation_context", "log_files", "parameters"},
             "written by Azure ML when it shows a job; ignored");
  for (const char* key : {"$schema", "type"}) job.take(key);
}

std::string Reading::local_path(const Value& value, const std::string& text) {
  const Place& place = value.node().place;
  return absolute_path(text, place.source ? place.source->directory : "/");
}

const YamlNode& Reading::keep(YamlNode node) {
  kept_.push_back(std::move(node));
  return kept_.back();
}

std::optional<Value> Reading::load(const Value& value, const std::string& text) {
  const std::string path = local_path(value, text);
  if (!options.files.read) {
    value.unresolved("the file " + quoted_text(path) + " cannot be read here");
    return std::nullopt;
  }
  if (sources_ >= max_files || bytes_ >= max_included_bytes) {
    value.error("too many included files; does " + quoted_text(path) + " include itself?");
    return std::nullopt;
  }
  Result<std::string> content = options.files.read(path, max_file_bytes);
  if (!content) {
    value.error(content.error().message);
    return std::nullopt;
  }
  bytes_ += content->size();
  const auto source = std::make_shared<Source>(
      Source{path, directory_of(path), std::string(without_byte_order_mark(*content)), ++sources_});
  std::optional<YamlNode> node = read_yaml(source, findings);
  if (!node) return std::nullopt;
  return Value(keep(std::move(*node)), "", findings);
}

}  // namespace muster
