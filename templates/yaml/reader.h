// YAML text in, YamlNode tree out. The only file that sees the YAML library, and the guard against
// hostile input: size, depth, number of nodes and expanded bytes are limited before anything is
// built, and every failure of the library becomes a finding.
#pragma once

#include <memory>
#include <optional>

#include "templates/yaml/finding.h"
#include "templates/yaml/node.h"

namespace muster {

// A job file is a few kilobytes; a megabyte still parses within a second in a debug build.
constexpr std::size_t max_file_bytes = std::size_t{1} << 20;
// The deepest legal file (a component inside a pipeline step) needs about ten levels.
constexpr int max_depth = 64;
// After aliases are copied in.
constexpr int max_nodes = 50000;
constexpr std::size_t max_expanded_bytes = std::size_t{8} << 20;

// nullopt after an error, which is then in `findings`. An empty document is a null node.
std::optional<YamlNode> read_yaml(const std::shared_ptr<const Source>& source,
                                  FindingList& findings);

}  // namespace muster
