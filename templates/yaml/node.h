// The tree a YAML text becomes: values with their positions, aliases already copied in, merge keys
// already merged, every scalar still as the text the user wrote. Bounded by the reader that builds
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "templates/yaml/finding.h"

namespace muster {

struct Entry;

struct YamlNode {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  Place place;
  std::string text;     // of a scalar
  bool quoted = false;  // in quotes, a block scalar or tagged as text: never a number or boolean
  std::vector<YamlNode> items;  // of a list
  std::vector<Entry> entries;   // of a map, in file order, keys unique

  // The value under `key` of a map; nullptr if absent or not a map.
  const YamlNode* find(std::string_view key) const;
  YamlNode* find(std::string_view key);
  // The value under a dotted path; keys that contain dots are found too.
  const YamlNode* find_path(std::string_view path) const;
};

struct Entry {
  std::string key;
  Place place;
  YamlNode value;
};

YamlNode scalar_node(std::string text, Place place, bool quoted);

// "a list", "a map", "text 'abc'", "nothing": for "expected …, got …".
std::string describe(const YamlNode& node);

// YAML that reads as the same tree: aliases and comments are gone, text that could be taken for
// something else is in quotes.
std::string write_yaml(const YamlNode& node);

// One line, `{"a": [1, "b"]}`: JSON, every scalar that is not a number or boolean in quotes.
std::string write_json(const YamlNode& node);

}  // namespace muster
