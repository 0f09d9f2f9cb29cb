// Where data lie: a store as its file describes it, without its credentials, which are kept apart
// (launcher/data/datastore.h). Made by templates/resource, kept in the catalogue and in a job's
// directory. Plain values.
#pragma once

#include <map>
#include <string>

#include "scheduler/text/fields.h"

namespace muster {

enum class DatastoreType {
  azure_blob,
  azure_data_lake_gen2,
  one_lake,
  azure_file,
  rclone,  // muster's own: whatever rclone reaches
  local    // muster's own: a directory that all nodes see
};

// By the names that Azure's files and rclone have for them: `account_key`, `secret_access_key`.
using Credentials = std::map<std::string, std::string>;

struct DatastoreSpec {
  std::string name;
  DatastoreType type = DatastoreType::azure_blob;
  std::string description{};
  std::string account{};                        // of Azure's; OneLake: the workspace
  std::string container{};                      // or filesystem, file share; OneLake: the artifact
  std::string endpoint = "core.windows.net";    // of Azure's
  std::string remote{};                         // rclone: a backend such as s3
  std::map<std::string, std::string> options{};  // rclone: of that backend, no secrets
  std::string path{};                           // rclone, local: what the store begins with
  std::string credentials_file{};               // on the submitting machine; empty: muster's own

  bool operator==(const DatastoreSpec&) const = default;
  MUSTER_FIELDS(name, type, description, account, container, endpoint, remote, options, path,
                credentials_file)
};

// `data` of a cluster file: what nodes keep of the data that jobs read.
struct DataCacheSettings {
  std::string cache{};              // directory; empty: `data` in muster's home on the node
  std::string size = "80%";         // of the file system, or bytes
  std::string stage_below = "50%";  // of that: larger data are not copied
  std::string shared{};             // a directory that all nodes see, used instead of `cache`

  bool operator==(const DataCacheSettings&) const = default;
  MUSTER_FIELDS(cache, size, stage_below, shared)
};

}  // namespace muster
