// Bindings between the steps of a pipeline: `${{parent.inputs.x}}`, `${{parent.outputs.x}}` and
// `${{parent.jobs.step.outputs.y}}`. Found before a step is read, checked when all steps are known.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "templates/pipeline/component.h"
#include "templates/yaml/value.h"

namespace muster {

struct Binding {
  Value where;         // the scalar that holds it
  std::string target;  // `parent.…`
};

// The bindings in `inputs`, `outputs`, `resources` and `compute` of a step. In the copy of the step
// that is returned they are null, so that the step reads like a job without those values.
struct BoundStep {
  YamlNode without_bindings;
  std::vector<Binding> bindings;
};
BoundStep take_bindings(const Value& step);

// Everything a binding may name.
struct PipelineNames {
  std::set<std::string> inputs;
  std::set<std::string> outputs;
  std::map<std::string, ComponentShape> steps;
};

// Reports bindings to nothing, then cycles among the steps (one finding for each).
void check_bindings(const std::map<std::string, std::vector<Binding>>& of_steps,
                    const PipelineNames& names);

}  // namespace muster
