// `--set a.b=value`: changes the tree of a job file before anything is checked.
#pragma once

#include <string>

#include "templates/yaml/node.h"

namespace muster {

// What is wrong with the option itself, whatever the file says; empty: nothing.
std::string set_option_problem(const std::string& option);

// Missing maps on the way are made. A value that starts with `{` or `[` is read as YAML, anything
// else is a scalar as written. Numbers select items of a list. Findings name `--set a.b`.
void apply_set(YamlNode& root, const std::string& option, const std::string& base_directory,
               int order, FindingList& findings);

}  // namespace muster
