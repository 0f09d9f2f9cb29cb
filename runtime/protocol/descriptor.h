// What a process holds of the kernel, and gives back by itself: descriptors, and memory of mmap(2).
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

namespace muster {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

class Mapping {
 public:
  Mapping() = default;
  // From the beginning of `fd`; where it cannot be, get() is null and errno says why.
  Mapping(std::size_t bytes, int protection, int flags, int fd)
      : begin_(::mmap(nullptr, bytes, protection, flags, fd, 0)), bytes_(bytes) {
    if (begin_ == MAP_FAILED) begin_ = nullptr;
  }
  ~Mapping() {
    if (begin_ != nullptr) ::munmap(begin_, bytes_);
  }
  Mapping(Mapping&& other) noexcept
      : begin_(std::exchange(other.begin_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  void* get() const { return begin_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace muster
