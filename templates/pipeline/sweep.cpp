#include "templates/pipeline/pipeline.h"

#include <optional>

#include "templates/job/command_job.h"

namespace muster {

namespace {

void read_sampling(const Value& value) {
  const std::vector<std::string> types = {"random", "grid", "bayesian"};
  std::optional<std::string> type;
  if (value.is_scalar()) {
    type = value.word(types);
    if (type) value.note("deprecated; write 'sampling_algorithm: {type: " + *type + "}'");
  } else {
    MapReader map(value);
    type = map.require("type").word(types);
    map.take("seed").integer(0, 2147483647);
    map.take("rule").word({"random", "sobol"});
    map.ignore({"logbase"}, "has no effect here; ignored");
    map.finish();
  }
  if (type == "bayesian") value.unresolved("bayesian sampling is not supported");
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

void check_choice(MapReader& map) {
  const Value values = map.require("values");
  if (values.is_list() && values.node().items.empty()) values.error("expected at least one value");
  for (const Value& each : values.list()) {
    // A value of a choice may itself be a map: a nested space.
    if (each.is_list()) each.error("expected a value or a nested map, got a list");
  }
}

void check_step(MapReader& map, bool quantized) {
  if (!quantized) return;
  const Value step = map.require("q");
  if (const auto q = step.number(); q && *q <= 0) step.error("expected more than 0");
}

void check_bounds(MapReader& map, bool quantized) {
  const Value low = map.require("min_value");
  const Value high = map.require("max_value");
  const auto least = low.number();
  const auto most = high.number();
  if (least && most && *least >= *most) high.error("expected more than min_value");
  check_step(map, quantized);
}

void check_bell(MapReader& map, bool quantized) {
  map.require("mu").number();
  const Value width = map.require("sigma");
  if (const auto sigma = width.number(); sigma && *sigma <= 0) width.error("expected more than 0");
  check_step(map, quantized);
}

void check_parameter(const Value& value) {
  MapReader map(value);
  const auto type =
      map.require("type").word({"choice", "randint", "uniform", "loguniform", "quniform",
                                "qloguniform", "normal", "lognormal", "qnormal", "qlognormal"});
  if (!type) return;
  const bool quantized = type->starts_with('q');
  if (*type == "choice") {
    check_choice(map);
  } else if (*type == "randint") {
    map.require("upper").integer(1, 2147483647);
  } else if (type->ends_with("uniform")) {
    check_bounds(map, quantized);
  } else {
    check_bell(map, quantized);
  }
  map.finish();
}

// Checks every parameter; their names, for `${{search_space.x}}`.
std::set<std::string> read_search_space(const Value& value) {
  std::set<std::string> names;
  for (const Value& each : MapReader(value).entries()) {
    names.insert(each.key());
    if (each.is_null()) each.error("expected a map with 'type'");
    check_parameter(each);
  }
  if (value.is_map() && names.empty()) value.error("expected at least one parameter");
  return names;
}

void read_early_termination(const Value& value) {
  if (!value.present()) return;
  MapReader map(value);
  const auto type = map.require("type").word({"bandit", "median_stopping", "truncation_selection"});
  map.take("evaluation_interval").integer(1, 2147483647);
  map.take("delay_evaluation").integer(0, 2147483647);
  if (!type) return;
  if (*type == "bandit") {
    const Value factor = map.take("slack_factor");
    const Value amount = map.take("slack_amount");
    factor.number();
    amount.number();
    if (!factor.present() && !amount.present()) {
      value.error("expected 'slack_factor' or 'slack_amount'");
    }
  }
  if (*type == "truncation_selection") map.require("truncation_percentage").integer(1, 99);
  map.finish();
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
  read_inputs(job.take("inputs"), DataContext::command_job, reading, spec);
  read_outputs(job.take("outputs"), spec);
  read_sweep_keys(job, reading, spec);
  job.ignore({"services"}, "has no meaning for a sweep; ignored");
  read_settings(job.take("muster"), job.take("properties"), reading, spec);
  job.finish();
}

}  // namespace muster
