// Where a job runs, for how long and with how many processes: `compute`, `resources`, `limits`,
// `queue_settings`, `identity`; `distribution` with Azure's semantics exactly, never another
// number.
#include <algorithm>
#include <charconv>
#include <iterator>

#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/job/command_job.h"
#include "templates/yaml/path_form.h"

namespace muster {

namespace {

// `<n>[b|k|m|g]` with n > 0.
bool is_memory_size(std::string_view text) {
  double size = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), size, std::chars_format::fixed);
  if (error != std::errc{} || !(size > 0)) return false;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  return unit.empty() || (unit.size() == 1 && is_made_of(unit, "bkmgBKMG"));
}

// A text is split as a shell does; an item of a list is one word already.
std::string as_one_word(const Value& docker_args, const std::string& text) {
  const bool is_split = docker_args.is_list() && !is_word_of(text, "_-./:=,@+");
  return is_split ? "'" + replaced(text, "'", "'\\''") + "'" : text;
}

// What `compute` names: the bare target, empty for the default one.
std::string target_name(const Value& value, std::string name) {
  if (name.starts_with("azureml:")) name.erase(0, 8);
  if (name.starts_with("/subscriptions/")) name = file_name_of(name);
  if (folded(name) == "serverless") {
    value.note("'serverless' is the default target here");
    return "";
  }
  if (name.empty()) value.error("expected the name of a target");
  value.is_to_be_replaced(name, "a target");
  return name;
}

void read_instance_count(const Value& value, JobSpec& spec) {
  const auto count = value.integer(1, most_nodes);
  if (!count) return;
  spec.instance_count = *count;
  spec.muster.nodes_min = *count;
  spec.muster.nodes_max = *count;
}

// Azure writes `UserIdentity` where it shows a job.
std::optional<std::string> identity_type(const Value& type) {
  const std::vector<std::string> words = {"user_identity", "managed", "managed_identity",
                                          "aml_token"};
  for (const std::string& word : words) {
    if (type.is_scalar() && folded(type.node().text) == replaced(word, "_", "")) return word;
  }
  return type.word(words);
}

// ---- distribution

constexpr int most_processes = 4096;  // on one node

// `process_count`, and `worker_count` under pytorch and mpi: all nodes together.
void read_total(const Value& total, JobSpec& spec) {
  const auto count = total.integer(1, most_processes * 1024);
  if (!count) return;
  total.note("deprecated, read as the total over all nodes; write 'process_count_per_instance'");
  if (*count % spec.instance_count != 0) {
    total.error("expected a multiple of resources.instance_count (" +
                std::to_string(spec.instance_count) + "), got " + std::to_string(*count));
    return;
  }
  spec.distribution.processes_per_node = *count / spec.instance_count;
}

void read_counted(const Value& value, MapReader& map, JobSpec& spec) {
  const Value per_node = map.take("process_count_per_instance");
  const Value total = map.take("process_count");
  const Value workers = map.take("worker_count");
  if (const auto count = per_node.integer(1, most_processes)) {
    spec.distribution.processes_per_node = *count;
  } else if (total.present() || workers.present()) {
    read_total(total.present() ? total : workers, spec);
  } else if (spec.distribution.type == DistributionType::mpi && !per_node.given()) {
    value.warning("no 'process_count_per_instance': 1 process on each node");
  }
}

void read_tensorflow(MapReader& map, JobSpec& spec) {
  Distribution& out = spec.distribution;
  out.worker_count = map.take("worker_count").integer(1, 65536).value_or(spec.instance_count);
  const Value servers = map.take("parameter_server_count");
  out.parameter_server_count = servers.integer(0, 65536).value_or(0);
  if (out.parameter_server_count > spec.instance_count) {
    servers.error("expected at most one on each node (" + std::to_string(spec.instance_count) +
                  "), got " + std::to_string(out.parameter_server_count));
  }
}

// Whether a shell's quotes in it are closed, and a backslash at its end is none.
bool is_whole(std::string_view words) {
  char quote = 0;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const char c = words[at];
    if (c == '\\' && quote != '\'' && ++at == words.size()) return false;
    if (c == quote || (quote == 0 && (c == '\'' || c == '"'))) quote = quote == 0 ? c : '\0';
  }
  return quote == 0;
}

void read_ray(MapReader& map, JobSpec& spec) {
  const auto record = [&](const char* key, const std::optional<std::string>& text) {
    if (text) spec.recorded[std::string("distribution.") + key] = *text;
  };
  const auto number_text = [](const std::optional<int>& number) {
    return number ? std::optional(std::to_string(*number)) : std::nullopt;
  };
  record("address", map.take("address").text());
  record("port", number_text(map.take("port").integer(1, 65535)));
  record("dashboard_port", number_text(map.take("dashboard_port").integer(1, 65535)));
  if (const auto flag = map.take("include_dashboard").boolean()) {
    record("include_dashboard", *flag ? "true" : "false");
  }
  for (const char* key : {"head_node_additional_args", "worker_node_additional_args"}) {
    const Value words = map.take(key);
    const auto text = words.text();
    if (text && !is_whole(*text)) words.error("a quote is not closed");
    record(key, text);
  }
}

// A key that only other types have.
void refuse_keys_of_others(DistributionType type, MapReader& map) {
  const auto refuse = [&](const char* key, const char* types) {
    const Value value = map.take(key);
    if (value.given())
      value.error("does not fit this type; it goes with type " + std::string(types));
  };
  const bool is_counted = type == DistributionType::pytorch || type == DistributionType::mpi;
  if (!is_counted) {
    refuse("process_count_per_instance", "pytorch or mpi");
    refuse("process_count", "pytorch or mpi");
  }
  if (type == DistributionType::ray) refuse("worker_count", "tensorflow");
  if (type != DistributionType::tensorflow) refuse("parameter_server_count", "tensorflow");
  if (type == DistributionType::ray) return;
  for (const char* key : {"address", "port", "dashboard_port", "include_dashboard",
                          "head_node_additional_args", "worker_node_additional_args"}) {
    refuse(key, "ray");
  }
}

}  // namespace

void read_compute(const Value& value, JobSpec& spec) {
  if (!value.is_map()) {
    if (const auto name = value.text()) spec.compute = target_name(value, *name);
    return;
  }
  value.note("deprecated; write 'compute: <target>' and 'resources.instance_count'");
  MapReader map(value);
  const Value target = map.take("target");
  if (const auto name = target.text()) spec.compute = target_name(target, *name);
  read_instance_count(map.take("instance_count"), spec);
  map.finish();
}

void read_resources(const Value& value, JobSpec& spec) {
  spec.shm_size = "2g";
  MapReader map(value);
  read_instance_count(map.take("instance_count"), spec);
  store(spec.muster.nodes_max, map.take("max_instance_count").integer(1, most_nodes));
  std::ranges::move(map.take("instance_type").texts(), std::back_inserter(spec.instance_types));
  const Value shm_size = map.take("shm_size");
  if (const auto text = shm_size.text()) {
    spec.shm_size = *text;
    if (!is_memory_size(*text)) shm_size.misfit("a size above 0 such as 2g (b, k, m or g)");
  }
  const Value docker_args = map.take("docker_args");
  for (const std::string& words : docker_args.texts()) {
    spec.docker_args += (spec.docker_args.empty() ? "" : " ") + as_one_word(docker_args, words);
  }
  map.ignore({"locations", "properties"}, "has no meaning here; ignored");
  map.finish();
}

void read_limits(const Value& value, JobSpec& spec) {
  MapReader map(value);
  const Value timeout = map.take("timeout");
  if (const auto duration = timeout.duration()) {
    spec.timeout = std::chrono::duration_cast<Seconds>(*duration);
    if (*duration < Seconds{1}) timeout.error("expected 1 second or more");
  }
  const Value minutes = map.take("timeout_minutes");
  if (const auto count = minutes.integer(1, 10 * 366 * 24 * 60)) {
    minutes.note("deprecated; write 'limits.timeout' in seconds");
    if (!timeout.given()) spec.timeout = Seconds{*count * 60LL};
  }
  map.finish();
}

void read_queue_settings(const Value& value, JobSpec& spec) {
  MapReader map(value);
  const Value tier = map.take("job_tier");
  const auto word = tier.is_scalar() && folded(tier.node().text) == "null"
                        ? std::optional<std::string>()
                        : tier.word({"spot", "basic", "standard", "premium"});
  if (word) {
    spec.recorded["queue_settings.job_tier"] = *word;
    spec.muster.preemptible = *word == "spot";
    if (*word != "spot") tier.note("recorded; only 'spot' has a meaning here");
  }
  store(spec.muster.priority,
        map.take("priority").choice<int>({{"low", -100}, {"medium", 0}, {"high", 100}}));
  map.finish();
}

void read_identity(const Value& value, JobSpec& spec) {
  MapReader map(value);
  const Value type = map.take("type");
  if (const auto word = identity_type(type)) spec.recorded["identity.type"] = *word;
  for (const char* key : {"client_id", "object_id", "msi_resource_id"}) {
    if (const auto text = map.take(key).text()) {
      spec.recorded[std::string("identity.") + key] = *text;
    }
  }
  if (value.is_map()) value.note("recorded; data is read as the submitting user");
  map.finish();
}

void read_distribution(const Value& value, JobSpec& spec) {
  if (!value.present()) return;
  MapReader map(value);
  const auto type =
      map.require("type").choice<DistributionType>({{"pytorch", DistributionType::pytorch},
                                                    {"mpi", DistributionType::mpi},
                                                    {"tensorflow", DistributionType::tensorflow},
                                                    {"ray", DistributionType::ray}});
  if (!type) return;
  spec.distribution.type = *type;
  if (*type == DistributionType::tensorflow) {
    read_tensorflow(map, spec);
  } else if (*type == DistributionType::ray) {
    read_ray(map, spec);
  } else {
    read_counted(value, map, spec);
  }
  refuse_keys_of_others(*type, map);
  map.finish();
}

}  // namespace muster
