#include "templates/resource/data_asset.h"

#include "scheduler/model/names.h"
#include "scheduler/text/spelling.h"
#include "templates/resource/datastore.h"
#include "templates/yaml/path_form.h"

namespace muster {
namespace {

void read_place(const Value& path, const FileView& files, DataAsset& asset) {
  const auto text = path.text();
  if (!text || path.is_to_be_replaced(*text, "a path")) return;
  const auto form = path_form(*text);
  if (!form || text->empty()) {
    return path.error("expected a path, a URL or a datastore, got " + quoted_text(*text));
  }
  asset.path_kind = form->kind;
  asset.path = form->path;
  if (form->kind != PathKind::local) return;
  asset.path = absolute_path(form->path, path.node().place.source->directory);
  if (!files.kind_of) return;
  const OnDisk found = files.kind_of(asset.path);
  if (found == OnDisk::missing) {
    path.error("there is no file or directory " + quoted_text(asset.path));
  } else if ((found == OnDisk::file) != (asset.type == DataType::uri_file)) {
    path.error(quoted_text(asset.path) + (found == OnDisk::file
                                              ? " is a file; expected type uri_file"
                                              : " is a directory; expected type uri_folder"));
  }
}

void add(YamlNode& map, const std::string& key, const std::string& text) {
  if (!text.empty()) map.entries.push_back({key, {}, scalar_node(text, {}, true)});
}

}  // namespace

DataAsset read_data_asset(const Value& root, const FileView& files) {
  DataAsset asset;
  MapReader map(root);
  map.take("$schema");
  const Value name = map.require("name");
  asset.name = name.text().value_or("");
  if (!asset.name.empty() && !name.is_to_be_replaced(asset.name, "a name") &&
      !is_store_name(asset.name)) {
    name.error("expected letters, digits, '_', '-' and '.', got " + quoted_text(asset.name));
  }
  const Value version = map.take("version");
  asset.version = version.text().value_or("");
  if (!asset.version.empty() && !is_store_name(asset.version)) {
    version.error("expected letters, digits, '_', '-' and '.', got " + quoted_text(asset.version));
  }
  store(asset.type, map.take("type").choice<DataType>({{"uri_folder", DataType::uri_folder},
                                                       {"uri_file", DataType::uri_file},
                                                       {"mltable", DataType::mltable}}));
  asset.description = map.take("description").text().value_or("");
  asset.tags = map.take("tags").text_map();
  map.take("properties").text_map();
  map.ignore({"id", "creation_context", "latest_version", "datastore", "auto_delete_setting",
              "display_name", "intellectual_property"},
             "written by Azure ML; ignored");
  read_place(map.require("path"), files, asset);
  map.finish();
  return asset;
}

std::string data_asset_text(const DataAsset& asset) {
  YamlNode map;
  map.kind = YamlNode::Kind::map;
  add(map, "name", asset.name);
  add(map, "version", asset.version);
  add(map, "type", std::string(word(asset.type)));
  add(map, "description", asset.description);
  YamlNode tags;
  tags.kind = YamlNode::Kind::map;
  for (const auto& [key, text] : asset.tags) add(tags, key, text);
  if (!tags.entries.empty()) map.entries.push_back({"tags", {}, std::move(tags)});
  add(map, "path", asset.path);
  return write_yaml(map);
}

}  // namespace muster
