#include "templates/resource/datastore.h"

#include <algorithm>
#include <array>

#include "scheduler/model/names.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/path_form.h"

namespace muster {
namespace {

// What becomes part of a line of rclone's configuration, or of an address.
bool is_one_line(std::string_view text) {
  return text.find_first_of(std::string_view("\n\r\0", 3)) == text.npos;
}

void read_line(const Value& value, std::string& field) {
  const auto text = value.text();
  if (!text || value.is_to_be_replaced(*text)) return;
  if (!is_one_line(*text)) return value.error("expected text on one line");
  field = *text;
}

// Part of a host's name or of the first part of a path.
void read_word(const Value& value, std::string_view also, std::string& field) {
  read_line(value, field);
  if (field.empty() || is_word_of(field, also)) return;
  value.error("expected letters, digits and " + quoted_text(also) + ", got " + quoted_text(field));
}

bool says_secret(std::string_view option) {
  constexpr std::array<std::string_view, 3> open{"key_file", "access_key_id", "env_auth"};
  constexpr std::array<std::string_view, 8> parts{"secret", "pass",       "token", "key",
                                                  "sas",    "credential", "auth",  "header"};
  const std::string word = folded(option);
  return std::ranges::find(open, word) == open.end() &&
         std::ranges::any_of(parts, [&](std::string_view part) { return mentions(word, part); });
}

Credentials read_secrets(const Value& value, std::initializer_list<const char*> keys) {
  Credentials out;
  MapReader map(value);
  for (const char* key : keys) {
    const Value secret = map.take(key);
    if (secret.given() && !secret.is_scalar()) secret.error("expected text");
    if (!secret.is_scalar()) continue;
    if (!is_one_line(secret.node().text)) secret.error("expected text on one line");
    out[key] = secret.node().text;
  }
  map.finish();
  return out;
}

Credentials read_any_secrets(const Value& value) {
  Credentials out;
  for (const Value& each : MapReader(value).entries()) {
    if (!each.is_scalar()) {
      each.error("expected text");
    } else if (!is_one_line(each.node().text) || !is_word_of(each.key(), "_")) {
      each.error("expected a name of letters, digits and '_', and text on one line");
    } else {
      out[each.key()] = each.node().text;
    }
  }
  return out;
}

const char* container_key(DatastoreType type) {
  if (type == DatastoreType::azure_blob) return "container_name";
  return type == DatastoreType::azure_file ? "file_share_name" : "filesystem";
}

constexpr std::initializer_list<const char*> principal_keys = {
    "tenant_id",     "client_id",   "client_secret", "resource_url",
    "authority_url", "account_key", "sas_token"};

void read_azure_keys(MapReader& map, DatastoreFile& file) {
  const bool is_lake = file.spec.type == DatastoreType::azure_data_lake_gen2;
  read_word(map.require("account_name"), "-", file.spec.account);
  read_word(map.require(container_key(file.spec.type)), "-._$", file.spec.container);
  read_word(map.take("endpoint"), "-.:", file.spec.endpoint);
  const Value protocol = map.take("protocol"), credentials = map.take("credentials");
  if (is_lake) {
    protocol.word({"https", "abfss", "abfs"});
    file.credentials = read_secrets(credentials, principal_keys);
  } else {
    protocol.word({"https", "wasbs", "wasb"});
    file.credentials = read_secrets(credentials, {"account_key", "sas_token"});
  }
}

void read_first_lake_keys(MapReader& map) {
  std::string ignored;
  read_line(map.require("store_name"), ignored);
  read_secrets(map.take("credentials"), principal_keys);
  map.value().unresolved(
      "Azure has ended Data Lake Storage Gen1; move the data and use azure_data_lake_gen2");
}

void read_one_lake_keys(MapReader& map, DatastoreFile& file) {
  read_word(map.require("one_lake_workspace_name"), "-._ ", file.spec.container);
  read_word(map.take("endpoint"), "-.:", file.spec.endpoint);
  MapReader artifact(map.require("artifact"));
  artifact.take("type").word({"lake_house"});
  std::string name;
  read_word(artifact.require("name"), "-._ ", name);
  artifact.finish();
  file.spec.account = "onelake";
  file.spec.path = name;
  file.credentials = read_secrets(map.take("credentials"), principal_keys);
}

void read_rclone_keys(MapReader& map, DatastoreFile& file) {
  read_word(map.require("remote"), "-", file.spec.remote);
  for (const Value& each : MapReader(map.take("options")).entries()) {
    std::string& text = file.spec.options[each.key()];
    read_line(each, text);
    if (!is_word_of(each.key(), "_")) each.error("expected letters, digits and '_'");
    if (each.key() == "type") each.error("the type is 'remote'");
    if (says_secret(each.key())) each.error("belongs under 'credentials', which is kept apart");
  }
  read_line(map.take("path"), file.spec.path);
  file.credentials = read_any_secrets(map.take("credentials"));
}

void read_local_keys(MapReader& map, DatastoreFile& file) {
  const Value path = map.require("path");
  read_line(path, file.spec.path);
  if (file.spec.path.empty()) return;
  if (!file.spec.path.starts_with('/')) path.error("expected a path that begins with /");
  file.spec.path = absolute_path(file.spec.path, "/");
}

void read_type_keys(MapReader& map, DatastoreFile& file) {
  const Value type = map.take("type");
  if (type.is_scalar() && folded(type.node().text) == "azure_data_lake_gen1") {
    return read_first_lake_keys(map);
  }
  store(file.spec.type, type.choice<DatastoreType>(EnumWords<DatastoreType>::words));
  switch (file.spec.type) {
    case DatastoreType::one_lake:
      return read_one_lake_keys(map, file);
    case DatastoreType::rclone:
      return read_rclone_keys(map, file);
    case DatastoreType::local:
      return read_local_keys(map, file);
    default:
      return read_azure_keys(map, file);
  }
}

void put(YamlNode& map, const std::string& key, const std::string& text) {
  if (!text.empty()) map.entries.push_back({key, {}, scalar_node(text, {}, true)});
}

void put(YamlNode& map, const std::string& key, const std::map<std::string, std::string>& texts) {
  YamlNode inner;
  inner.kind = YamlNode::Kind::map;
  for (const auto& [name, text] : texts) put(inner, name, text);
  if (!inner.entries.empty()) map.entries.push_back({key, {}, std::move(inner)});
}

// "80%" or a number of bytes with a unit: "500GB", "2TiB".
void read_share(const Value& value, std::string& field) {
  const auto text = value.text();
  if (!text) return;
  const std::size_t digits = text->find_first_not_of("0123456789");
  const std::string unit = digits == text->npos ? "" : lower_case(text->substr(digits));
  constexpr std::array<std::string_view, 8> units{"", "%", "mb", "mib", "gb", "gib", "tb", "tib"};
  const bool is_known = std::ranges::find(units, unit) != units.end();
  const bool is_too_much = unit == "%" && digits > 2 && *text != "100%";
  if (digits == 0 || !is_known || is_too_much || text->size() > 12) {
    return value.error("expected a share of the disk or a size such as 80% or 500GB, got " +
                       quoted_text(*text));
  }
  field = lower_case(*text);
}

void read_directory(const Value& value, std::string& field) {
  read_line(value, field);
  if (field.empty() || field.starts_with('/')) return;
  value.error("expected a path that begins with /, got " + quoted_text(field));
}

// A name or a version is part of a path.
bool is_store_name(std::string_view text) {
  return text.size() <= 200 && is_word_of(text.substr(0, 1), "_") && is_word_of(text, "_.-");
}

void check_store_name(const Value& value, const std::string& text) {
  if (text.empty() || is_store_name(text)) return;
  value.error("expected letters, digits, '_', '-' and '.', got " + quoted_text(text));
}

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

}  // namespace

DatastoreFile read_datastore(const Value& root, const std::string& name) {
  root.findings().hide_source_lines();
  DatastoreFile file;
  MapReader map(root);
  map.take("$schema");
  const Value own_name = name.empty() ? map.require("name") : map.take("name");
  file.spec.name = name.empty() ? own_name.text().value_or("") : name;
  const Value& about = own_name.given() ? own_name : root;
  const bool is_placeholder = about.is_to_be_replaced(file.spec.name, "a name");
  if (!is_placeholder && !file.spec.name.empty() && !is_store_name(file.spec.name)) {
    about.error(quoted_text(file.spec.name) +
                " is not a name; expected letters, digits, '_', '-' and '.'");
  }
  file.spec.description = map.take("description").text().value_or("");
  map.take("tags").text_map();
  map.take("properties").text_map();
  read_type_keys(map, file);
  const Value credentials_file = map.take("credentials_file");
  if (const auto text = credentials_file.text()) {
    file.spec.credentials_file =
        absolute_path(*text, credentials_file.node().place.source->directory);
    if (!file.credentials.empty()) credentials_file.error("there are 'credentials' already");
  }
  map.ignore({"id", "creation_context", "display_name"}, "written by Azure ML; ignored");
  map.finish();
  return file;
}

Credentials read_credentials_file(const Value& root) {
  root.findings().hide_source_lines();
  return read_any_secrets(root);
}

std::string datastore_text(const DatastoreSpec& spec) {
  YamlNode map;
  map.kind = YamlNode::Kind::map;
  put(map, "name", spec.name);
  put(map, "type", std::string(word(spec.type)));
  put(map, "description", spec.description);
  if (spec.type == DatastoreType::rclone || spec.type == DatastoreType::local) {
    put(map, "remote", spec.remote);
    put(map, "options", spec.options);
    put(map, "path", spec.path);
  } else if (spec.type == DatastoreType::one_lake) {
    put(map, "one_lake_workspace_name", spec.container);
    put(map, "endpoint", spec.endpoint);
    put(map, "artifact", {{"type", "lake_house"}, {"name", spec.path}});
  } else {
    put(map, "account_name", spec.account);
    put(map, container_key(spec.type), spec.container);
    put(map, "endpoint", spec.endpoint);
  }
  put(map, "credentials_file", spec.credentials_file);
  return write_yaml(map);
}

DataCacheSettings read_data_cache(const Value& value) {
  DataCacheSettings settings;
  MapReader map(value);
  read_directory(map.take("cache"), settings.cache);
  read_share(map.take("size"), settings.size);
  read_share(map.take("stage_below"), settings.stage_below);
  const Value shared = map.take("shared");
  const bool is_none = shared.is_scalar() && folded(shared.node().text) == "none";
  if (!is_none) read_directory(shared, settings.shared);
  map.finish();
  return settings;
}

DataAsset read_data_asset(const Value& root, const FileView& files) {
  DataAsset asset;
  MapReader map(root);
  map.take("$schema");
  const Value name = map.require("name");
  asset.name = name.text().value_or("");
  if (!name.is_to_be_replaced(asset.name, "a name")) check_store_name(name, asset.name);
  const Value version = map.take("version");
  asset.version = version.text().value_or("");
  check_store_name(version, asset.version);
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
  put(map, "name", asset.name);
  put(map, "version", asset.version);
  put(map, "type", std::string(word(asset.type)));
  put(map, "description", asset.description);
  put(map, "tags", asset.tags);
  put(map, "path", asset.path);
  return write_yaml(map);
}

}  // namespace muster
