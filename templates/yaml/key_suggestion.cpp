#include "templates/yaml/key_suggestion.h"

#include <algorithm>

#include "scheduler/text/spelling.h"

namespace muster {
namespace {

struct Pair {
  std::string_view key;
  std::string_view other;
};

// Words from other launchers and schedulers.
constexpr Pair synonyms[] = {
    {"paths", "path"},
    {"uri", "path"},
    {"url", "path"},
    {"nodes", "resources.instance_count"},
    {"num_nodes", "resources.instance_count"},
    {"node_count", "resources.instance_count"},
    {"nnodes", "resources.instance_count"},
    {"gpus", "muster.nodes.gpus"},
    {"nproc_per_node", "distribution.process_count_per_instance"},
    {"processes_per_node", "muster.processes_per_node"},
    {"env", "environment_variables"},
    {"envs", "environment_variables"},
    {"environment_vars", "environment_variables"},
    {"cmd", "command"},
    {"run", "command"},
    {"script", "command"},
    {"entrypoint", "command"},
    {"source_directory", "code"},
    {"workdir", "code"},
    {"target", "compute"},
    {"cluster", "compute"},
    {"time_limit", "limits.timeout"},
    {"walltime", "limits.timeout"},
    {"max_restarts", "muster.restart.attempts"},
    {"retries", "muster.restart.attempts"},
    {"experiment", "experiment_name"},
    {"labels", "tags"},
    {"hosts", "nodes"},
};

// Key -> the map it belongs under.
constexpr Pair homes[] = {
    {"instance_count", "resources"},
    {"instance_type", "resources"},
    {"max_instance_count", "resources"},
    {"shm_size", "resources"},
    {"docker_args", "resources"},
    {"process_count_per_instance", "distribution"},
    {"worker_count", "distribution"},
    {"parameter_server_count", "distribution"},
    {"timeout", "limits"},
    {"max_total_trials", "limits"},
    {"max_concurrent_trials", "limits"},
    {"trial_timeout", "limits"},
    {"job_tier", "queue_settings"},
    {"priority", "queue_settings"},
    {"image", "environment"},
    {"conda_file", "environment"},
    {"build", "environment"},
    {"primary_metric", "objective"},
    {"goal", "objective"},
    {"default_compute", "settings"},
    {"default_datastore", "settings"},
    {"continue_on_step_failure", "settings"},
    {"force_rerun", "settings"},
    {"restart", "muster"},
    {"reschedule", "muster"},
    {"checkpoint", "muster"},
    {"resume", "muster"},
    {"health", "muster"},
    {"placement", "muster"},
    {"hang", "muster"},
};

template <std::size_t n>
std::string_view look_up(const Pair (&table)[n], std::string_view key) {
  const std::string plain = folded(key);
  for (const Pair& pair : table) {
    if (pair.key == plain) return pair.other;
  }
  return {};
}

// `resources.instance_count` fits below the top level only; `path` only where it is legal.
bool fits(std::string_view synonym, const std::vector<std::string>& legal_here) {
  const std::string_view head = synonym.substr(0, synonym.find('.'));
  return std::find(legal_here.begin(), legal_here.end(), head) != legal_here.end();
}

}  // namespace

std::string suggest_key(std::string_view key, const std::vector<std::string>& legal_here,
                        std::string_view here) {
  const std::string_view synonym = look_up(synonyms, key);
  if (!synonym.empty() && fits(synonym, legal_here)) {
    return "did you mean " + quoted_text(synonym) + "?";
  }
  const std::string_view home = look_up(homes, key);
  if (!home.empty() && !here.ends_with(home)) return "it belongs under " + quoted_text(home);
  return did_you_mean(key, legal_here);
}

}  // namespace muster
