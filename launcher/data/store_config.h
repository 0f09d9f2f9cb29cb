// A datastore in rclone's words. Pure.
#pragma once

#include <string>
#include <string_view>

#include "scheduler/model/datastore.h"
#include "scheduler/model/result.h"

namespace muster {

// The text of a configuration with one remote, `store`. Holds the credentials.
Result<std::string> rclone_config(const DatastoreSpec& spec, const Credentials& credentials);

// "store:container/path": `path` below what the store begins with.
std::string rclone_place(const DatastoreSpec& spec, std::string_view path);

// What is the same for two descriptions of one store, whatever their names and credentials.
std::string store_identity(const DatastoreSpec& spec);

// Whether listing tells an MD5 without reading the files.
bool tells_hashes(const DatastoreSpec& spec);

// rclone speaks of control characters by their pictures (U+240A for a line feed), and of pictures
// by a quote before them: its names are on one line. The other way, the name that a file has.
std::string rclone_name(std::string_view path);
std::string name_of_rclone(std::string_view path);

// `a/b` of any mix of parts, without empty ones.
std::string joined_path(std::string_view first, std::string_view second);

}  // namespace muster
