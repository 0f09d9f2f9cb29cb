#include "templates/yaml/set_option.h"

#include <charconv>

#include "scheduler/text/spelling.h"
#include "templates/yaml/reader.h"

namespace muster {
namespace {

// Maps from free names to text: everything after the first dot is one key.
bool holds_free_names(std::string_view key) {
  return key == "properties" || key == "tags" || key == "environment_variables";
}

std::optional<std::size_t> list_index(std::string_view text, std::size_t size) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc{} || end != text.data() + text.size() || index >= size) {
    return std::nullopt;
  }
  return index;
}

YamlNode& entry_of(YamlNode& map, const std::string& key, const Place& place) {
  if (YamlNode* found = map.find(key)) return *found;
  map.entries.push_back(Entry{key, place, YamlNode{}});
  map.entries.back().value.place = place;
  return map.entries.back().value;
}

// Puts `value` at `path` below `node`; the sentence that says why not, or empty.
std::string put(YamlNode& node, std::string_view path, YamlNode value, int depth) {
  if (depth > max_depth) return "the path has too many parts";
  if (path.empty()) {
    node = std::move(value);
    return "";
  }
  if (node.kind == YamlNode::Kind::null) {
    node.kind = YamlNode::Kind::map;
    node.place = value.place;
  }
  if (node.kind == YamlNode::Kind::scalar) return "there is a plain value above it in the file";
  const std::size_t dot = path.find('.');
  std::string_view head = path.substr(0, dot);
  std::string_view rest = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  if (node.kind == YamlNode::Kind::list) {
    const auto index = list_index(head, node.items.size());
    if (!index) return quoted_text(head) + " is not an item of the list";
    return put(node.items[*index], rest, std::move(value), depth + 1);
  }
  if (node.find(path)) {  // a key that contains dots
    head = path;
    rest = "";
  }
  const Place place = value.place;
  YamlNode& below = entry_of(node, std::string(head), place);
  if (depth == 0 && holds_free_names(head) && !rest.empty()) {
    if (below.kind == YamlNode::Kind::null) below.kind = YamlNode::Kind::map;
    if (below.kind != YamlNode::Kind::map) return "there is a plain value above it in the file";
    entry_of(below, std::string(rest), place) = std::move(value);
    return "";
  }
  return put(below, rest, std::move(value), depth + 1);
}

}  // namespace

std::string set_option_problem(const std::string& option) {
  const std::string path = option.substr(0, option.find('='));
  if (path.size() == option.size() || path.empty()) return "expected --set <path>=<value>";
  const bool has_empty_part =
      path.starts_with('.') || path.ends_with('.') || path.find("..") != std::string::npos;
  return has_empty_part ? "cannot be set: the path has an empty part" : "";
}

void apply_set(YamlNode& root, const std::string& option, const std::string& base_directory,
               int order, FindingList& findings) {
  const std::size_t equals = option.find('=');
  const std::string path = option.substr(0, equals);
  auto source = std::make_shared<Source>();
  source->path = "--set " + path;
  source->directory = base_directory;
  source->order = order;
  const Place place{source, 0, 0};
  if (const std::string problem = set_option_problem(option); !problem.empty()) {
    findings.add(Severity::error, place, path, problem);
    return;
  }
  source->text = option.substr(equals + 1);
  YamlNode value = scalar_node(source->text, place, false);
  if (source->text.starts_with('{') || source->text.starts_with('[')) {
    const auto read = read_yaml(source, findings);
    if (!read) return;
    value = *read;
  }
  if (source->text == "null") value.kind = YamlNode::Kind::null;
  if (source->text.find_first_of(std::string("\0\x01\x02", 3)) != std::string::npos) {
    findings.add(Severity::error, place, path, "the value contains a control character");
    return;
  }
  const std::string problem = put(root, path, std::move(value), 0);
  if (!problem.empty()) findings.add(Severity::error, place, path, "cannot be set: " + problem);
}

}  // namespace muster
