// A data asset's YAML, and back. Pure: whether a local path exists is asked of the FileView.
#pragma once

#include <map>
#include <string>

#include "scheduler/model/job_spec.h"
#include "templates/yaml/read_options.h"
#include "templates/yaml/value.h"

namespace muster {

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
