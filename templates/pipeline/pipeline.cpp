#include "templates/pipeline/pipeline.h"

#include <algorithm>
#include <map>
#include <vector>

#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/job/command_job.h"
#include "templates/job/expression.h"
#include "templates/yaml/path_form.h"

namespace muster {

namespace {

// The search for cycles is quadratic in them.
constexpr std::size_t most_steps = 1000;

// Of `${{parent.inputs.x}}`, `${{parent.outputs.x}}` and `${{parent.jobs.step.outputs.y}}`: found
// before a step is read, checked when all steps are known.
struct Binding {
  Value where;         // the scalar that holds it
  std::string target;  // `parent.…`
};

// The bindings in `inputs`, `outputs`, `resources` and `compute` of a step. In the copy of the step
// they are null, so that the step reads like a job without those values.
struct BoundStep {
  YamlNode without_bindings;
  std::vector<Binding> bindings;
};

// Everything a binding may name.
struct PipelineNames {
  std::set<std::string> inputs;
  std::set<std::string> outputs;
  std::map<std::string, ComponentShape> steps;
};

using Edges = std::map<std::string, std::set<std::string>>;

bool holds_bindings(std::string_view key) {
  return key == "inputs" || key == "outputs" || key == "resources" || key == "compute";
}

// `shown` has the same shape as `node`, for positions; `node` loses its bindings.
void collect(const Value& shown, YamlNode& node, std::vector<Binding>& out) {
  if (node.kind == YamlNode::Kind::scalar) {
    const Expressions all = find_expressions(node.text);
    if (all.found.empty()) return;
    for (const Expression& expression : all.found) out.push_back({shown, expression.name});
    node.kind = YamlNode::Kind::null;
    node.text.clear();
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) collect(shown.item(i), node.items[i], out);
  for (std::size_t i = 0; i < node.entries.size(); ++i) {
    collect(shown.entry(shown.node().entries[i]), node.entries[i].value, out);
  }
}

// A map whose `path` was a binding is a bound value too; the rest of it needs no path.
void drop_bound_maps(YamlNode& map) {
  for (Entry& entry : map.entries) {
    const YamlNode* path = entry.value.find("path");
    if (!path || path->kind != YamlNode::Kind::null) continue;
    YamlNode bound;
    bound.place = entry.value.place;
    entry.value = std::move(bound);
  }
}

std::string shown(const std::string& target) {
  return quoted_text("${{" + target + "}}");
}

void expect(const Binding& binding, const std::string& prefix, const std::set<std::string>& known) {
  const std::string name = binding.target.substr(prefix.size());
  if (known.count(name)) return;
  binding.where.error(shown(binding.target) + " names nothing in the pipeline",
                      binding.where.suggest(name, known));
}

// Of `parent.jobs.…`; empty after a finding.
std::string step_of(const Binding& binding, const PipelineNames& names) {
  const std::string rest = binding.target.substr(12);
  const std::size_t dot = rest.find('.');
  const std::string step = rest.substr(0, dot);
  const auto found = names.steps.find(step);
  if (found == names.steps.end()) {
    std::vector<std::string> known;
    for (const auto& [name, shape] : names.steps) known.push_back(name);
    binding.where.error("there is no step " + quoted_text(step),
                        binding.where.suggest(step, known));
    return "";
  }
  const std::string part = dot == std::string::npos ? "" : rest.substr(dot + 1);
  const bool output = part.starts_with("outputs.");
  if (!output && !part.starts_with("inputs.")) {
    binding.where.error("expected ${{parent.jobs." + step + ".outputs.<name>}}, got " +
                        shown(binding.target));
    return "";
  }
  const ComponentShape& shape = found->second;
  if (shape.known) {
    expect(binding, "parent.jobs." + step + (output ? ".outputs." : ".inputs."),
           output ? shape.outputs : shape.inputs);
  }
  return step;
}

// The step it depends on, empty for the pipeline's own values and after a finding.
std::string needed_by(const Binding& binding, const PipelineNames& names) {
  const std::string& target = binding.target;
  if (target.starts_with("parent.inputs.")) {
    expect(binding, "parent.inputs.", names.inputs);
  } else if (target.starts_with("parent.outputs.")) {
    expect(binding, "parent.outputs.", names.outputs);
  } else if (target.starts_with("parent.jobs.")) {
    return step_of(binding, names);
  } else if (target != "name" && target != "output_name" && target != "default_datastore") {
    binding.where.error("unknown expression " + shown(target),
                        "expected ${{parent.inputs.<name>}} or "
                        "${{parent.jobs.<step>.outputs.<name>}}");
  }
  return "";
}

// Removes steps that wait for nothing until none is left or only cycles (and what hangs on them)
// are.
std::set<std::string> steps_in_cycles(Edges edges) {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto at = edges.begin(); at != edges.end();) {
      const auto& needs = at->second;
      const bool free = std::none_of(needs.begin(), needs.end(),
                                     [&](const std::string& step) { return edges.count(step); });
      at = free ? edges.erase(at) : std::next(at);
      changed = changed || free;
    }
  }
  std::set<std::string> out;
  for (const auto& [step, needs] : edges) out.insert(step);
  return out;
}

// Follows unfinished steps from `start` until one repeats: the cycle, in order.
std::vector<std::string> cycle_from(const std::string& start, const Edges& edges,
                                    const std::set<std::string>& inside) {
  std::vector<std::string> walked{start};
  while (true) {
    const auto& needs = edges.at(walked.back());
    const auto next = std::find_if(needs.begin(), needs.end(),
                                   [&](const std::string& step) { return inside.count(step) > 0; });
    const auto before = std::find(walked.begin(), walked.end(), *next);
    if (before != walked.end()) return {before, walked.end()};
    walked.push_back(*next);
  }
}

BoundStep take_bindings(const Value& step) {
  BoundStep out;
  out.without_bindings = step.node();
  for (std::size_t i = 0; i < out.without_bindings.entries.size(); ++i) {
    Entry& entry = out.without_bindings.entries[i];
    if (!holds_bindings(entry.key)) continue;
    collect(step.entry(step.node().entries[i]), entry.value, out.bindings);
    if (entry.key == "inputs" || entry.key == "outputs") drop_bound_maps(entry.value);
  }
  return out;
}

// Reports bindings to nothing, then cycles among the steps (one finding for each).
void check_bindings(const std::map<std::string, std::vector<Binding>>& of_steps,
                    const PipelineNames& names) {
  Edges edges;
  std::map<std::string, Value> first_place;
  for (const auto& [step, bindings] : of_steps) {
    edges[step];
    for (const Binding& binding : bindings) {
      const std::string needed = needed_by(binding, names);
      if (needed.empty()) continue;
      edges[step].insert(needed);
      first_place.emplace(step, binding.where);
    }
  }
  std::set<std::string> inside = steps_in_cycles(edges);
  while (!inside.empty()) {
    const std::vector<std::string> cycle = cycle_from(*inside.begin(), edges, inside);
    std::string text;
    for (const std::string& step : cycle) text += step + " needs ";
    first_place.at(cycle.front()).error("the steps wait for each other: " + text + cycle.front());
    for (const std::string& step : cycle) edges.erase(step);
    inside = steps_in_cycles(edges);
  }
}

// Steps that take any command-job key beside their component.
ComponentShape read_component_step(const Value& step, MapReader& map, const Value& component,
                                   Reading& reading, JobSpec& spec) {
  ComponentShape shape = component.is_map() ? read_component_map(component, reading)
                                            : read_component_reference(component, reading);
  for (const char* key : {"command", "code"}) {
    const Value value = map.take(key);
    if (value.given()) value.error("a step with 'component' takes it from there");
  }
  read_environment(map.take("environment"), reading, spec.environment);
  const Value inputs = map.take("inputs");
  read_inputs(inputs, DataContext::step, reading, spec);
  if (!shape.known) return shape;
  for (const Value& each : MapReader(inputs).entries()) {
    if (shape.inputs.count(each.key())) continue;
    each.error("the component has no such input", each.suggest(each.key(), shape.inputs));
  }
  for (const std::string& name : shape.required_inputs) {
    if (spec.inputs.count(name) == 0)
      step.error("the component needs the input " + quoted_text(name));
  }
  return shape;
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

ComponentShape read_command_step(const Value& step, MapReader& map,
                                 const std::vector<Binding>& bindings, Reading& reading,
                                 JobSpec& spec) {
  read_step_keys(map, reading, spec);
  read_limits(map.take("limits"), spec);
  map.take("is_deterministic").boolean();
  const Value component = map.take("component");
  if (component.present()) return read_component_step(step, map, component, reading, spec);
  read_code(map.take("code"), reading, spec);
  const Value command = map.require("command");
  read_environment(map.take("environment"), reading, spec.environment);
  read_inputs(map.take("inputs"), DataContext::step, reading, spec);
  fill_bound_inputs(bindings, spec);
  read_command(command, nullptr, spec);
  return shape_of_inline(spec);
}

ComponentShape read_sweep_step(MapReader& map, const std::vector<Binding>& bindings,
                               Reading& reading, JobSpec& spec) {
  read_base_keys(map, spec);
  read_inputs(map.take("inputs"), DataContext::step, reading, spec);
  read_outputs(map.take("outputs"), spec);
  fill_bound_inputs(bindings, spec);
  read_sweep_keys(map, reading, spec);
  read_settings(map.take("muster"), map.take("properties"), reading, spec);
  return shape_of_inline(spec);
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
  constexpr std::string_view unsupported[] = {"spark",  "automl",     "parallel",
                                              "import", "finetuning", "data_transfer"};
  if (word == "command") {
    shape = read_command_step(value, map, step.bindings, reading, spec);
  } else if (word == "sweep") {
    shape = read_sweep_step(map, step.bindings, reading, spec);
  } else if (word == "pipeline") {
    read_step_keys(map, reading, spec);
    const Value component = map.take("component");
    if (!component.present()) return read_pipeline_component(value, reading);
    shape = read_component_step(value, map, component, reading, spec);
  } else if (std::ranges::find(unsupported, word) != std::end(unsupported)) {
    type.unresolved("steps of type " + quoted_text(word) + " are not supported");
    return shape;
  } else {
    type.error("unknown type " + quoted_text(type.node().text),
               did_you_mean(word, {"command", "sweep", "pipeline"}));
    return shape;
  }
  map.ignore({"comment"}, "has no meaning here; ignored");
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
  if (!is_word_of(step.key(), "_-")) {
    step.error("a step's name has letters, digits, '_' and '-' only");
  }
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
      step.misfit("a map");
      continue;
    }
    const BoundStep bound = take_bindings(step);
    names.steps[step.key()] = read_step(step, bound, reading);
    bindings[step.key()] = bound.bindings;
  }
  if (jobs.is_map() && names.steps.empty()) jobs.error("expected at least one step");
  check_bindings(bindings, names);
}

// `inputs`, `outputs` and `jobs` of the file.
PipelineNames read_parts(MapReader& map, DataContext context, Reading& reading, JobSpec& spec) {
  PipelineNames names;
  const Value inputs = map.take("inputs");
  const Value outputs = map.take("outputs");
  read_inputs(inputs, context, reading, spec);
  read_outputs(outputs, spec);
  for (const auto& [name, input] : spec.inputs) names.inputs.insert(name);
  for (const auto& [name, output] : spec.outputs) names.outputs.insert(name);
  const bool has_jobs = !map.value().given() || !map.value().node().find("component");
  read_steps(has_jobs ? map.require("jobs") : map.take("jobs"), reading, names);
  return names;
}

// ---- components

bool is_azure_component_name(std::string_view name) {
  return is_word_of(name, "_") && name.front() >= 'a' && name.front() <= 'z' &&
         lower_case(name) == name;
}

void check_component_name(const Value& value) {
  const auto name = value.text();
  if (!name) return;
  if (!value.is_to_be_replaced(*name, "a name") && !is_azure_component_name(*name)) {
    value.warning("Azure ML takes lower-case letters, digits and '_' only, got " +
                  quoted_text(*name));
  }
}

bool is_optional(const Value& input) {
  const YamlNode* optional = input.is_map() ? input.node().find("optional") : nullptr;
  return optional && boolean_word(optional->text).value_or(false);
}

// `$[[ … ]]` holds at least one optional input, else dropping it could never happen.
void check_optional_groups(const Value& command, const Value& inputs) {
  for (const std::string& group : optional_groups(command.node().text)) {
    bool any = false;
    for (const Expression& expression : find_expressions(group).found) {
      if (!expression.name.starts_with("inputs.") || !inputs.is_map()) continue;
      const YamlNode* input = inputs.node().find(expression.name.substr(7));
      any = any || (input && is_optional(Value(*input, "", inputs.findings())));
    }
    if (!any) {
      command.warning("'$[[ ]]' without an optional input inside is an error when it runs: " +
                      quoted_text(group));
    }
  }
}

// Names only: a component's inputs have no values yet.
void check_component_command(const Value& command, const JobSpec& declared) {
  const auto text = command_text(command);
  if (!text) return;
  if (find_expressions(*text).unclosed) command.error("'${{' without '}}'");
  std::set<std::string> known;
  for (const auto& [name, input] : declared.inputs) known.insert("inputs." + name);
  for (const auto& [name, output] : declared.outputs) known.insert("outputs." + name);
  for (const Expression& expression : find_expressions(*text).found) {
    if (known.count(expression.name)) continue;
    command.error(
        quoted_text("${{" + expression.name + "}}") + " is neither an input nor an output",
        command.suggest(expression.name, known));
  }
}

ComponentShape shape_of(const Value& inputs, const JobSpec& declared) {
  ComponentShape shape;
  shape.known = true;
  for (const auto& [name, output] : declared.outputs) shape.outputs.insert(name);
  for (const Value& input : MapReader(inputs).entries()) {
    shape.inputs.insert(input.key());
    const bool preset = input.is_map() && input.node().find("default");
    if (!is_optional(input) && !preset) shape.required_inputs.insert(input.key());
  }
  return shape;
}

}  // namespace

void read_pipeline_job(const Value& root, Reading& reading, JobSpec& spec) {
  MapReader job(root);
  read_base_keys(job, spec);
  read_parts(job, DataContext::pipeline_job, reading, spec);
  read_compute(job.take("compute"), spec);
  read_limits(job.take("limits"), spec);
  read_identity(job.take("identity"), spec);
  read_pipeline_settings(job.take("settings"));
  if (const Value component = job.take("component"); component.given()) {
    component.unresolved("a pipeline by its component is not supported; write its 'jobs'");
  }
  if (const Value schedule = job.take("schedule"); schedule.given()) {
    schedule.unresolved("jobs are not started by a schedule; let cron submit them");
  }
  job.ignore({"services"}, "has no meaning for a pipeline; ignored");
  read_settings(job.take("muster"), job.take("properties"), reading, spec);
  job.finish();
}

ComponentShape read_pipeline_component(const Value& root, Reading& reading) {
  JobSpec spec;
  MapReader map(root);
  read_base_keys(map, spec);
  for (const char* key : {"version", "is_deterministic"}) map.take(key);
  const PipelineNames names = read_parts(map, DataContext::component, reading, spec);
  read_compute(map.take("compute"), spec);
  read_pipeline_settings(map.take("settings"));
  map.finish();
  return {true, names.inputs, {}, names.outputs};
}

ComponentShape read_command_component(const Value& root, Reading& reading) {
  JobSpec spec;
  MapReader map(root);
  for (const char* key : {"$schema", "type", "display_name", "description", "version"}) {
    const Value value = map.take(key);
    if (value.present()) value.text();
  }
  check_component_name(map.require("name"));
  map.take("tags").text_map();
  map.take("properties").text_map();
  map.take("is_deterministic").boolean();
  const Value inputs = map.take("inputs");
  read_inputs(inputs, DataContext::component, reading, spec);
  read_outputs(map.take("outputs"), spec);
  read_code(map.take("code"), reading, spec);
  read_environment(map.require("environment"), reading, spec.environment);
  read_environment_variables(map.take("environment_variables"), spec);
  read_resources(map.take("resources"), spec);
  read_distribution(map.take("distribution"), spec);
  for (const Value& each : map.take("additional_includes").list()) each.text();
  const Value command = map.require("command");
  check_component_command(command, spec);
  if (command.is_scalar()) check_optional_groups(command, inputs);
  map.ignore({"id", "creation_context", "queue_settings"}, "has no meaning here; ignored");
  map.finish();
  return shape_of(inputs, spec);
}

ComponentShape read_component_map(const Value& value, Reading& reading) {
  const bool nested = value.node().find("jobs") != nullptr;
  const YamlNode* type = value.node().find("type");
  const std::string word = type ? folded(type->text) : nested ? "pipeline" : "command";
  if (word.starts_with("pipeline")) return read_pipeline_component(value, reading);
  if (word == "command" || word == "command_component" || word == "commandcomponent") {
    return read_command_component(value, reading);
  }
  value.unresolved("a component of type " + quoted_text(word) + " is not supported");
  return {};
}

ComponentShape read_component_reference(const Value& value, Reading& reading) {
  const auto text = value.text();
  if (!text || value.is_to_be_replaced(*text, "a component")) return {};
  if (text->starts_with("azureml:")) {
    const bool is_named = is_asset_reference(*text) || text->starts_with("azureml://");
    if (!is_named) value.misfit("azureml:<name>[:<version>|@<label>]");
    if (is_named)
      value.unresolved("there is no component " + quoted_text(*text) + " in a catalogue here");
    return {};
  }
  const auto form = path_form(*text);
  if (!form || form->kind != PathKind::local) {
    value.misfit("a path or azureml:<name>");
    return {};
  }
  const auto file = reading.load(value, form->path);
  if (file && file->is_map()) return read_component_map(*file, reading);
  if (file) value.error(quoted_text(*text) + " does not hold a component");
  return {};
}

}  // namespace muster
