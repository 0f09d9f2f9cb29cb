// Components: reusable steps of a pipeline. Checked here; run by nothing yet.
#pragma once

#include <set>
#include <string>

#include "templates/job/reading.h"
#include "templates/yaml/read_options.h"

namespace muster {

// What a step may bind to: the declared names. `known` is false for components of a catalogue.
struct ComponentShape {
  bool known = false;
  std::set<std::string> inputs;
  std::set<std::string> required_inputs;  // neither optional nor with a default
  std::set<std::string> outputs;
};

void read_command_component(const Value& root, Reading& reading, ComponentShape& shape);

// A component named by path, `file:` path or catalogue name.
ComponentShape read_component_reference(const Value& value, Reading& reading);

// A component written out as a map.
ComponentShape read_component_map(const Value& value, Reading& reading);

}  // namespace muster
