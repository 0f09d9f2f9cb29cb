// YAML of datastores, by Azure's keys or muster's own (`type: rclone`, `type: local`), and of data
// assets, and back. Pure: whether a local path exists is asked of the FileView. Credentials come
// out apart and are never in a finding or in what is written.
#pragma once

#include <map>
#include <string>

#include "scheduler/model/datastore.h"
#include "scheduler/model/job_spec.h"
#include "templates/yaml/read_options.h"
#include "templates/yaml/value.h"

namespace muster {

struct DatastoreFile {
  DatastoreSpec spec;
  Credentials credentials;  // as in the file; empty where it names a file of them, or none
};

// `name`: of a store in a cluster file, which gives it one; else the file does.
DatastoreFile read_datastore(const Value& root, const std::string& name = "");

// A file of credentials: a map of texts. Null and nothing read as none.
Credentials read_credentials_file(const Value& root);

// YAML that `read_datastore` reads as the same.
std::string datastore_text(const DatastoreSpec& spec);

// `data` of a cluster file.
DataCacheSettings read_data_cache(const Value& value);

struct DataAsset {
  std::string name;
  std::string version;  // empty: the catalogue gives one
  DataType type = DataType::uri_folder;
  std::string description{};
  std::map<std::string, std::string> tags{};
  PathKind path_kind = PathKind::none;
  std::string path;  // absolute where it is local
};

DataAsset read_data_asset(const Value& root, const FileView& files);
// YAML that reads as the same.
std::string data_asset_text(const DataAsset& asset);

}  // namespace muster
