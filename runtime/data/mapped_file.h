// A file of tokens mapped into memory, read-only.
//
// A page that cannot be read would end the process with SIGBUS, as after an error of the disk or
// when another process cut the file short; so pages are asked for first (MADV_POPULATE_READ, Linux
// 5.14), which says so instead. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/checkpoint/file/checked.h"

namespace muster {

class MappedFile {
 public:
  // A fault when the file cannot be mapped or does not have `bytes` bytes.
  static Checked<MappedFile> open(const std::string& path, std::uint64_t bytes);

  // Takes over an open descriptor: what is locked through it stays locked while this lives.
  static Checked<MappedFile> take(int fd, const std::string& path, std::uint64_t bytes);

  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::string& path() const { return path_; }
  const char* data() const { return data_; }

  // Begins to read these bytes in the background.
  void will_need(std::uint64_t offset, std::uint64_t bytes) const;

  // Reads these bytes into memory; false when they cannot be read.
  bool load(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  MappedFile(int fd, std::string path, const char* data, std::uint64_t bytes);

  int fd_ = -1;
  std::string path_;
  const char* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace muster
