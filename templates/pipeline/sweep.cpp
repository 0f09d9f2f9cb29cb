#include "templates/pipeline/sweep.h"

#include "templates/job/command_job.h"
#include "templates/pipeline/component.h"
#include "templates/pipeline/search_space.h"
#include "templates/spelling.h"

namespace muster {
namespace {

void read_sampling(const Value& value) {
  const std::vector<std::string> types = {"random", "grid", "bayesian"};
  std::optional<std::string> type;
  if (value.is_scalar()) {
    type = value.word(types);
    if (type) value.note("old spelling; write 'sampling_algorithm: {type: " + *type + "}'");
  } else {
    MapReader map(value);
    type = map.require("type").word(types);
    map.take("seed").integer(0, 2147483647);
    map.take("rule").word({"random", "sobol"});
    map.finish();
  }
  if (type == "bayesian") value.unresolved("bayesian sampling is not offered");
}

void read_objective(const Value& value) {
  MapReader map(value);
  map.require("primary_metric").text();
  map.require("goal").word({"minimize", "maximize"});
  map.finish();
}

void read_sweep_limits(const Value& value) {
  MapReader map(value);
  const auto total = map.take("max_total_trials").integer(1, 1000000);
  const Value at_once = map.take("max_concurrent_trials");
  const auto concurrent = at_once.integer(1, 1000000);
  if (concurrent && *concurrent > total.value_or(1000)) {
    at_once.error("expected at most max_total_trials");
  }
  map.take("timeout").duration();
  map.take("trial_timeout").duration();
  map.finish();
}

void read_trial(const Value& value, const std::set<std::string>& names, Reading& reading,
                JobSpec& spec) {
  if (value.is_scalar()) {
    read_component_reference(value, reading);
    return;
  }
  MapReader trial(value);
  for (const char* key : {"$schema", "type", "name", "version", "display_name", "description",
                          "is_deterministic", "tags", "inputs", "outputs"}) {
    trial.take(key);
  }
  const Value command = trial.require("command");
  read_environment(trial.require("environment"), reading, spec.environment);
  read_code(trial.take("code"), reading, spec);
  read_environment_variables(trial.take("environment_variables"), spec);
  read_resources(trial.take("resources"), spec);
  read_distribution(trial.take("distribution"), spec);
  trial.finish();
  read_command(command, &names, spec);
}

}  // namespace

void read_sweep_keys(MapReader& base, Reading& reading, JobSpec& spec) {
  read_sampling(base.require("sampling_algorithm"));
  const auto names = read_search_space(base.require("search_space"));
  read_objective(base.require("objective"));
  read_early_termination(base.take("early_termination"));
  read_sweep_limits(base.take("limits"));
  read_compute(base.take("compute"), spec);
  read_resources(base.take("resources"), spec);
  read_identity(base.take("identity"), spec);
  read_queue_settings(base.take("queue_settings"), spec);
  read_trial(base.require("trial"), names, reading, spec);
}

void read_sweep_job(const Value& root, Reading& reading, JobSpec& spec) {
  MapReader job(root);
  read_base_keys(job, spec);
  job.take("$schema");
  job.take("type");
  read_inputs(job.take("inputs"), DataContext::command_job, reading, spec);
  read_outputs(job.take("outputs"), spec);
  read_sweep_keys(job, reading, spec);
  read_settings(job.take("muster"), job.take("properties"), reading, spec);
  job.finish();
}

}  // namespace muster
