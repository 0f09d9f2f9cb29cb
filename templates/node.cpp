#include "templates/node.h"

#include <utility>

#include "templates/spelling.h"

namespace muster {

const Node* Node::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

Node* Node::find(std::string_view key) {
  return const_cast<Node*>(std::as_const(*this).find(key));
}

const Node* Node::find_path(std::string_view path) const {
  if (path.empty()) return this;
  for (const Entry& entry : entries) {
    if (path == entry.key) return &entry.value;
    const bool below = path.size() > entry.key.size() && path.starts_with(entry.key) &&
                       path[entry.key.size()] == '.';
    if (!below) continue;
    if (const Node* found = entry.value.find_path(path.substr(entry.key.size() + 1))) return found;
  }
  return nullptr;
}

Node scalar_node(std::string text, Place place, bool quoted) {
  Node node;
  node.kind = Node::Kind::scalar;
  node.place = std::move(place);
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::scalar:
      return quoted(node.text);
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a map";
  }
  return "?";
}

}  // namespace muster
