#include "templates/yaml/node.h"

#include <utility>

#include "scheduler/text/spelling.h"

namespace muster {

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

YamlNode* YamlNode::find(std::string_view key) {
  return const_cast<YamlNode*>(std::as_const(*this).find(key));
}

const YamlNode* YamlNode::find_path(std::string_view path) const {
  if (path.empty()) return this;
  for (const Entry& entry : entries) {
    if (path == entry.key) return &entry.value;
    const bool below = path.size() > entry.key.size() && path.starts_with(entry.key) &&
                       path[entry.key.size()] == '.';
    if (!below) continue;
    if (const YamlNode* found = entry.value.find_path(path.substr(entry.key.size() + 1)))
      return found;
  }
  return nullptr;
}

YamlNode scalar_node(std::string text, Place place, bool quoted) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.place = std::move(place);
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::scalar:
      return quoted_text(node.text);
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
  }
  return "?";
}

}  // namespace muster
