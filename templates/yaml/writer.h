// A tree back to YAML text that reads as the same tree: aliases and comments are gone, text that
// could be taken for something else is in quotes. Pure.
#pragma once

#include <string>

#include "templates/yaml/node.h"

namespace muster {

std::string write_yaml(const YamlNode& node);

// One line, `{"a": [1, "b"]}`: JSON, every scalar that is not a number or boolean in quotes.
std::string write_json(const YamlNode& node);

}  // namespace muster
