// `distribution`: how many processes a job has. Azure's semantics exactly, never another number.
#include "scheduler/text/spelling.h"
#include "templates/job/command_job.h"

namespace muster {
namespace {

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
