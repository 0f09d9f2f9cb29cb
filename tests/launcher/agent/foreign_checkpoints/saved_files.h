// Files as PyTorch and its libraries write them, as far as muster looks at them.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/runtime/folder.h"

namespace muster::test {

// Head and end of a zip archive, with something between.
inline std::string torch_bytes(const std::string& data = std::string(300, 'w')) {
  return std::string("PK\3\4") + data + "PK\5\6" + std::string(18, '\0');
}

inline std::string safetensors_bytes() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  return length + header + std::string(16, 'w');
}

// Below a folder of the test's own; each file is a second newer than the one before.
class SavedFiles {
 public:
  std::string path(const std::string& name = "") const {
    return folder_.path() + (name.empty() ? "" : "/" + name);
  }
  void put(const std::string& name, const std::string& bytes) {
    const std::filesystem::path file = path(name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    ++seconds_;
    const timespec times[2] = {{seconds_, 0}, {seconds_, 0}};
    ::utimensat(AT_FDCWD, file.c_str(), times, 0);
  }
  void remove(const std::string& name) { std::filesystem::remove_all(path(name)); }

 private:
  Folder folder_;
  time_t seconds_ = 1'700'000'000;
};

}  // namespace muster::test
