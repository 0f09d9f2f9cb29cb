#include "templates/pipeline/pipeline.h"

#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/job/command_job.h"
#include "templates/job/expression.h"
#include "templates/yaml/path_form.h"

namespace muster {
namespace {

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
  if (!text) return {};
  if (value.is_to_be_replaced(*text, "a component")) return {};
  if (text->starts_with("azureml:")) {
    const bool named = is_asset_reference(*text) || text->starts_with("azureml://");
    if (named) {
      value.unresolved("there is no component " + quoted_text(*text) + " in a catalogue here");
    } else {
      value.error("expected azureml:<name>[:<version>|@<label>], got " + quoted_text(*text));
    }
    return {};
  }
  const auto form = path_form(*text);
  if (!form || form->kind != PathKind::local) {
    value.error("expected a path or azureml:<name>, got " + quoted_text(*text));
    return {};
  }
  const auto file = reading.load(value, form->path);
  if (!file) return {};
  if (!file->is_map()) {
    value.error(quoted_text(*text) + " does not hold a component");
    return {};
  }
  return read_component_map(*file, reading);
}

}  // namespace muster
