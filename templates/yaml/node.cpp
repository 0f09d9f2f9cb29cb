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
  return {YamlNode::Kind::scalar, std::move(place), std::move(text), quoted, {}, {}};
}

std::string describe(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar) return quoted_text(node.text);
  if (node.kind == YamlNode::Kind::null) return "nothing";
  return node.kind == YamlNode::Kind::list ? "a list" : "a map";
}

}  // namespace muster
