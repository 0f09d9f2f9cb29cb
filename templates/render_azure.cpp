#include "templates/render_azure.h"

#include <algorithm>

#include "templates/settings/setting_table.h"
#include "templates/yaml/writer.h"

namespace muster {
namespace {

bool is_setting(const std::string& path) {
  const auto& table = setting_table();
  return std::any_of(table.begin(), table.end(),
                     [&](const Setting& setting) { return setting.path == path; });
}

bool joins_by_commas(const YamlNode& list) {
  return std::all_of(list.items.begin(), list.items.end(), [](const YamlNode& item) {
    return item.kind == YamlNode::Kind::scalar && item.text.find(',') == std::string::npos;
  });
}

std::string property_text(const YamlNode& value) {
  if (value.kind == YamlNode::Kind::scalar) return value.text;
  if (value.kind != YamlNode::Kind::list || !joins_by_commas(value)) return write_json(value);
  std::string out;
  for (const YamlNode& item : value.items) out += (out.empty() ? "" : ",") + item.text;
  return out;
}

void flatten(const YamlNode& map, const std::string& prefix, YamlNode& properties) {
  for (const Entry& entry : map.entries) {
    const std::string path = prefix + entry.key;
    const bool leaf = is_setting(path) || entry.value.kind != YamlNode::Kind::map;
    if (!leaf) {
      flatten(entry.value, path + '.', properties);
    } else if (entry.value.kind != YamlNode::Kind::null) {
      properties.entries.push_back(
          {"muster." + path, entry.place,
           scalar_node(property_text(entry.value), entry.value.place, true)});
    }
  }
}

}  // namespace

std::string render_for_azure(const JobFile& job) {
  if (!job.tree) return "";
  YamlNode out = *job.tree;
  const YamlNode* settings = job.tree->find("muster");
  if (!settings || settings->kind != YamlNode::Kind::map) return write_yaml(out);
  std::erase_if(out.entries, [](const Entry& entry) { return entry.key == "muster"; });
  YamlNode* properties = out.find("properties");
  if (!properties) {
    out.entries.push_back({"properties", settings->place, YamlNode{}});
    properties = &out.entries.back().value;
  }
  properties->kind = YamlNode::Kind::map;
  flatten(*settings, "", *properties);
  return write_yaml(out);
}

}  // namespace muster
