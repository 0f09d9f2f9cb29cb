#include "templates/pipeline/pipeline.h"

#include <algorithm>

#include "scheduler/text/spelling.h"
#include "templates/job/command_job.h"
#include "templates/pipeline/bindings.h"
#include "templates/pipeline/sweep.h"

namespace muster {
namespace {

// The search for cycles is quadratic in them.
constexpr std::size_t most_steps = 1000;

// Steps that take any command-job key beside their component.
void read_component_step(const Value& step, MapReader& map, const Value& component,
                         Reading& reading, JobSpec& spec, ComponentShape& shape) {
  shape = component.is_map() ? read_component_map(component, reading)
                             : read_component_reference(component, reading);
  for (const char* key : {"command", "code"}) {
    const Value value = map.take(key);
    if (value.given()) value.error("a step with 'component' takes it from there");
  }
  read_environment(map.take("environment"), reading, spec.environment);
  const Value inputs = map.take("inputs");
  read_inputs(inputs, DataContext::step, reading, spec);
  if (!shape.known) return;
  for (const Value& each : MapReader(inputs).entries()) {
    if (shape.inputs.count(each.key())) continue;
    each.error("the component has no such input", each.suggest(each.key(), shape.inputs));
  }
  for (const std::string& name : shape.required_inputs) {
    if (spec.inputs.count(name) == 0)
      step.error("the component needs the input " + quoted_text(name));
  }
}

ComponentShape shape_of_inline(const JobSpec& spec) {
  ComponentShape shape;
  shape.known = true;
  for (const auto& [name, input] : spec.inputs) shape.inputs.insert(name);
  for (const auto& [name, output] : spec.outputs) shape.outputs.insert(name);
  return shape;
}

// A bound input has a value that is not known yet; any will do for the checks of the command.
void fill_bound_inputs(const std::vector<Binding>& bindings, JobSpec& spec) {
  if (bindings.empty()) return;
  for (auto& [name, input] : spec.inputs) {
    if (!input.is_literal && input.path_kind == PathKind::none) input.is_literal = true;
  }
}

void read_step_keys(MapReader& map, Reading& reading, JobSpec& spec) {
  read_base_keys(map, spec);
  map.take("$schema");
  read_environment_variables(map.take("environment_variables"), spec);
  read_compute(map.take("compute"), spec);
  read_resources(map.take("resources"), spec);
  read_identity(map.take("identity"), spec);
  read_queue_settings(map.take("queue_settings"), spec);
  read_services(map.take("services"), spec);
  read_distribution(map.take("distribution"), spec);
  read_outputs(map.take("outputs"), spec);
  read_settings(map.take("muster"), map.take("properties"), reading, spec);
}

void read_command_step(const Value& step, MapReader& map, const std::vector<Binding>& bindings,
                       Reading& reading, JobSpec& spec, ComponentShape& shape) {
  read_step_keys(map, reading, spec);
  read_limits(map.take("limits"), spec);
  map.take("is_deterministic").boolean();
  const Value component = map.take("component");
  if (component.present()) {
    read_component_step(step, map, component, reading, spec, shape);
    return;
  }
  read_code(map.take("code"), reading, spec);
  const Value command = map.require("command");
  read_environment(map.take("environment"), reading, spec.environment);
  read_inputs(map.take("inputs"), DataContext::step, reading, spec);
  shape = shape_of_inline(spec);
  fill_bound_inputs(bindings, spec);
  read_command(command, nullptr, spec);
}

void read_sweep_step(MapReader& map, const std::vector<Binding>& bindings, Reading& reading,
                     JobSpec& spec, ComponentShape& shape) {
  read_base_keys(map, spec);
  map.take("$schema");
  read_inputs(map.take("inputs"), DataContext::step, reading, spec);
  read_outputs(map.take("outputs"), spec);
  shape = shape_of_inline(spec);
  fill_bound_inputs(bindings, spec);
  read_sweep_keys(map, reading, spec);
  read_settings(map.take("muster"), map.take("properties"), reading, spec);
}

ComponentShape read_step(const Value& shown, const BoundStep& step, Reading& reading) {
  const YamlNode& kept = reading.keep(step.without_bindings);
  const Value value(kept, shown.path(), reading.findings);
  ComponentShape shape;
  JobSpec spec;
  MapReader map(value);
  const Value type = map.take("type");
  const std::string word = type.is_scalar()     ? folded(type.node().text)
                           : kept.find("trial") ? "sweep"
                                                : "command";
  if (word == "command") {
    read_command_step(value, map, step.bindings, reading, spec, shape);
  } else if (word == "sweep") {
    read_sweep_step(map, step.bindings, reading, spec, shape);
  } else if (word == "pipeline") {
    read_step_keys(map, reading, spec);
    if (const Value component = map.take("component"); component.present()) {
      read_component_step(value, map, component, reading, spec, shape);
    } else {
      read_pipeline_component(value, reading, shape);
      return shape;
    }
  } else if (word == "spark" || word == "automl" || word == "parallel" || word == "import" ||
             word == "finetuning" || word == "data_transfer") {
    type.unresolved("steps of type " + quoted_text(word) + " are not supported");
    return shape;
  } else {
    type.error("unknown type " + quoted_text(type.node().text),
               did_you_mean(word, {"command", "sweep", "pipeline"}));
    return shape;
  }
  map.finish();
  return shape;
}

void read_pipeline_settings(const Value& value) {
  MapReader map(value);
  map.take("default_compute").text();
  map.take("default_datastore").text();
  map.take("continue_on_step_failure").boolean();
  map.take("force_rerun").boolean();
  map.take("on_init").text();
  map.take("on_finalize").text();
  map.finish(Severity::warning);
}

// Bindings separate the parts of a name by dots.
void check_step_name(const Value& step) {
  const std::string& name = step.key();
  const bool legal = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  if (name.empty() || !legal) step.error("a step's name has letters, digits, '_' and '-' only");
}

void read_steps(const Value& jobs, Reading& reading, PipelineNames& names) {
  std::map<std::string, std::vector<Binding>> bindings;
  if (jobs.is_map() && jobs.node().entries.size() > most_steps) {
    jobs.error("expected at most " + std::to_string(most_steps) + " steps");
    return;
  }
  for (const Value& step : MapReader(jobs).entries()) {
    check_step_name(step);
    if (!step.is_map()) {
      step.error("expected a map, got " + describe(step.node()));
      continue;
    }
    const BoundStep bound = take_bindings(step);
    names.steps[step.key()] = read_step(step, bound, reading);
    bindings[step.key()] = bound.bindings;
  }
  if (jobs.is_map() && names.steps.empty()) jobs.error("expected at least one step");
  check_bindings(bindings, names);
}

std::set<std::string> names_in(const Value& map) {
  std::set<std::string> out;
  if (!map.is_map()) return out;
  for (const Entry& entry : map.node().entries) out.insert(entry.key);
  return out;
}

}  // namespace

void read_pipeline_job(const Value& root, Reading& reading, JobSpec& spec) {
  MapReader job(root);
  read_base_keys(job, spec);
  job.take("$schema");
  job.take("type");
  const Value inputs = job.take("inputs");
  const Value outputs = job.take("outputs");
  read_inputs(inputs, DataContext::pipeline_job, reading, spec);
  read_outputs(outputs, spec);
  read_compute(job.take("compute"), spec);
  read_limits(job.take("limits"), spec);
  read_identity(job.take("identity"), spec);
  read_pipeline_settings(job.take("settings"));
  if (const Value schedule = job.take("schedule"); schedule.given()) {
    schedule.unresolved("jobs are not started by a schedule; let cron submit them");
  }
  PipelineNames names;
  names.inputs = names_in(inputs);
  names.outputs = names_in(outputs);
  read_steps(job.require("jobs"), reading, names);
  read_settings(job.take("muster"), job.take("properties"), reading, spec);
  job.finish();
}

void read_pipeline_component(const Value& root, Reading& reading, ComponentShape& shape) {
  JobSpec spec;
  MapReader map(root);
  read_base_keys(map, spec);
  for (const char* key : {"$schema", "type", "version", "is_deterministic"}) map.take(key);
  const Value inputs = map.take("inputs");
  const Value outputs = map.take("outputs");
  read_inputs(inputs, DataContext::component, reading, spec);
  read_outputs(outputs, spec);
  read_compute(map.take("compute"), spec);
  read_pipeline_settings(map.take("settings"));
  PipelineNames names;
  names.inputs = names_in(inputs);
  names.outputs = names_in(outputs);
  read_steps(map.require("jobs"), reading, names);
  map.finish();
  shape.known = true;
  shape.inputs = names.inputs;
  shape.outputs = names.outputs;
}

}  // namespace muster
