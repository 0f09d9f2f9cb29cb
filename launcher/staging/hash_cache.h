// Hashes of files read earlier, so that a snapshot reads only what changed. One file per source
// directory below `<blobs>/cache/`, replaced after every snapshot; losing it costs time only, so an
// unreadable one counts as empty and a failed save is not an error.
//
// Format: "muster hash cache 1\n", then records ended by a zero byte, numbers decimal:
//   <hash> <size> <modified ns> <changed ns> <inode> <device> <path, to the zero byte>
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

#include "launcher/staging/file_facts.h"

namespace muster {

class HashCache {
 public:
  static HashCache load(const std::filesystem::path& file);
  void save(const std::filesystem::path& file) const;

  // The hash of the file when it was remembered with the very same facts; null otherwise.
  const std::string* find(const std::string& path, const FileFacts& facts) const;
  void remember(const std::string& path, const FileFacts& facts, std::string hash);

  bool operator==(const HashCache&) const = default;

 private:
  struct Entry {
    FileFacts facts;
    std::string hash;
    bool operator==(const Entry&) const = default;
  };
  bool read_record(std::string_view record);

  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace muster
