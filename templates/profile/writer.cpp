#include <charconv>
#include <concepts>
#include <map>

#include "scheduler/model/names.h"
#include "templates/profile/reader.h"
#include "templates/yaml/node.h"

namespace muster {
namespace {

YamlNode node_of(const std::string& text) {
  return scalar_node(text, {}, true);
}
YamlNode node_of(bool value) {
  return scalar_node(value ? "true" : "false", {}, false);
}
YamlNode node_of(std::integral auto value) {
  return scalar_node(std::to_string(value), {}, false);
}
// The shortest text that reads as the same number.
YamlNode node_of(double value) {
  char text[400];
  const auto [end, error] =
      std::to_chars(text, text + sizeof text, value, std::chars_format::fixed);
  return scalar_node(error == std::errc() ? std::string(text, end) : "0", {}, false);
}
YamlNode node_of(const std::vector<std::string>& texts) {
  YamlNode node;
  node.kind = YamlNode::Kind::list;
  for (const std::string& text : texts) node.items.push_back(node_of(text));
  return node;
}
YamlNode node_of(CheckMode mode) {
  return node_of(std::string(word(mode)));
}

// A map that leaves out what is not there.
class MapBuilder {
 public:
  MapBuilder() { node_.kind = YamlNode::Kind::map; }

  template <class T>
  void add(const std::string& key, const T& value) {
    node_.entries.push_back(Entry{key, {}, node_of(value)});
  }
  template <class T>
  void add(const std::string& key, const std::optional<T>& value) {
    if (value) add(key, *value);
  }
  template <class T>
  void add_unless(const T& usual, const std::string& key, const T& value) {
    if (!(value == usual)) add(key, value);
  }
  void add_node(const std::string& key, YamlNode node) {
    if (!node.entries.empty() || !node.items.empty()) {
      node_.entries.push_back(Entry{key, {}, std::move(node)});
    }
  }
  YamlNode take() { return std::move(node_); }

 private:
  YamlNode node_;
};

YamlNode match_node(const HealthProfile& profile) {
  MapBuilder map;
  map.add_unless(std::string(), "gpu_name", profile.match_gpu_name);
  map.add("gpu_count", profile.match_gpu_count);
  return map.take();
}

// The fields of a part of the profile that are not as usual.
template <class Part>
YamlNode part_node(const Part& part) {
  const Part standard;
  std::map<std::string, std::string> usual;
  Part::fields(standard, [&](const char* name, const auto& value) {
    MapBuilder map;
    map.add(name, value);
    usual[name] = write_yaml(map.take());
  });
  MapBuilder changed;
  Part::fields(part, [&](const char* name, const auto& value) {
    MapBuilder map;
    map.add(name, value);
    if (write_yaml(map.take()) != usual[name]) changed.add(name, value);
  });
  return changed.take();
}

// A check without a setting of its own stays: it hides a pattern's.
YamlNode checks_node(const std::map<std::string, CheckSetting>& checks) {
  YamlNode all;
  all.kind = YamlNode::Kind::map;
  for (const auto& [check, setting] : checks) {
    MapBuilder map;
    map.add("mode", setting.mode);
    map.add("samples", setting.samples);
    for (const auto& [name, limit] : setting.limits) map.add(name, limit);
    all.entries.push_back(Entry{check, {}, map.take()});
  }
  return all;
}

YamlNode exclude_node(const std::vector<CheckExclusion>& exclude) {
  YamlNode list;
  list.kind = YamlNode::Kind::list;
  for (const CheckExclusion& one : exclude) {
    MapBuilder map;
    map.add("check", one.check);
    map.add_unless(std::string(), "device", one.device);
    map.add_unless(std::string(), "why", one.why);
    list.items.push_back(map.take());
  }
  return list;
}

}  // namespace

std::string write_health_profile(const HealthProfile& profile) {
  MapBuilder map;
  map.add("profile", profile.name);
  map.add_node("match", match_node(profile));
  map.add_node("gpu", part_node(profile.gpu));
  map.add_node("ib", part_node(profile.ib));
  map.add_node("host", part_node(profile.host));
  MapBuilder floors;
  for (const auto& [name, floor] : profile.floors) floors.add(name, floor);
  map.add_node("floors", floors.take());
  map.add_node("required", node_of(profile.required));
  map.add_node("checks", checks_node(profile.checks));
  map.add_node("exclude", exclude_node(profile.exclude));
  map.add_node("breaker", part_node(profile.breaker));
  return write_yaml(map.take());
}

}  // namespace muster
