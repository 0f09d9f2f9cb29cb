// The list of files that one input has, made once and the same for every node and attempt. Its
// SHA-256 is the version of the data. What it holds comes from elsewhere and is checked whenever it
// is read. Pure.
//
// Format, version 1, a line of JSON each, sorted by path:
//
//   {"manifest":1,"store":IDENTITY,"root":PATH IN THE STORE}
//   [path, bytes, ns since 1970, MD5 or ""]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// A manifest is in memory as a whole, some 200 bytes a file, on each node.
inline constexpr std::size_t manifest_limit_files = 1'000'000;

struct DataFile {
  std::string path;  // relative; never `..`, nor another file's directory
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;
  std::string md5{};  // hex; empty where the store tells none

  bool operator==(const DataFile&) const = default;
};

struct DataManifest {
  std::string store;  // store_identity
  std::string root;
  std::vector<DataFile> files;

  std::int64_t bytes() const;
};

// One line of `rclone lsjson`; `found` is empty where it is no file (the brackets around them).
Status read_listed(std::string_view line, std::vector<DataFile>& found);

// Sorted. An Error: a file is listed twice, or is also the directory of another.
Status put_in_order(std::vector<DataFile>& files);

std::string data_manifest_text(const DataManifest& manifest);
Result<DataManifest> read_data_manifest(std::string_view text);

// The name of a file's bytes in a cache: equal for what is the same object of the same store.
std::string object_name(const DataManifest& manifest, const DataFile& file);

// ns since 1970 of "2024-05-06T07:08:09.123456789+02:00"; nothing for other text.
std::optional<std::int64_t> read_rfc3339(const std::string& text);

}  // namespace muster
