// A directory of one test, removed with everything in it at the end; and plain reading and writing
// of files.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "runtime/checkpoint/choose.h"

namespace muster::test {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-runtime-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The newest usable checkpoint of a directory, or none; the reasons against the others go to
// `rejected` when given.
inline std::optional<FoundCheckpoint> find_newest_checkpoint(
    const std::string& root, std::vector<RejectedCheckpoint>* rejected = nullptr) {
  CheckpointSearch search = search_checkpoints(root);
  if (rejected != nullptr) *rejected = std::move(search.rejected);
  if (search.usable.empty()) return std::nullopt;
  return search.usable.front();
}

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return std::move(content).str();
}

inline void put(const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

}  // namespace muster::test
