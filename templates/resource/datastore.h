// A datastore's YAML, by Azure's keys or muster's own (`type: rclone`, `type: local`), and back.
// Pure. Credentials come out apart and are never in a finding or in what is written.
#pragma once

#include <string>

#include "scheduler/model/datastore.h"
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

// Letters, digits, `_`, `-` and `.`, not `-` or `.` first: a store's name is part of a path.
bool is_store_name(std::string_view text);

}  // namespace muster
