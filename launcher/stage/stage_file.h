// An open file descriptor with an owner, and the sentence for a failed call on a file. Used by
// every part of staging; any thread. Knows nothing of trees or blobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "scheduler/model/result.h"

namespace muster {

class StageFile {
 public:
  explicit StageFile(int fd = -1) : fd_(fd) {}
  ~StageFile() { close(); }
  StageFile(StageFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  StageFile& operator=(StageFile&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close();

  // All of `bytes` at the file's position; false leaves errno.
  bool write_all(std::string_view bytes);
  // Up to `limit` bytes at `offset` into `out` (resized), fewer only at the end; false leaves
  // errno.
  bool read_at(std::int64_t offset, std::size_t limit, std::string& out) const;

 private:
  int fd_;
};

// "cannot <attempt> '<path>': <why>", and for a full file system how much is free and what to do.
Error stage_error(std::string_view attempt, const std::filesystem::path& path, int error_number);

// "3.2 GiB", "17 bytes": for sentences.
std::string readable_bytes(std::int64_t bytes);

}  // namespace muster
