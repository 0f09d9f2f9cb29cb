#include "runtime/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace muster {
namespace {

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;
#endif

struct Pages {
  char* begin = nullptr;
  std::size_t bytes = 0;
};

Pages pages_around(const char* data, std::uint64_t offset, std::uint64_t bytes) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page;
  return {const_cast<char*>(data) + begin, offset + bytes - begin};
}

}  // namespace

MappedFile::MappedFile(int fd, std::string path, const char* data, std::uint64_t bytes)
    : fd_(fd), path_(std::move(path)), data_(data), bytes_(bytes) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), bytes_);
  if (fd_ >= 0) ::close(fd_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Checked<MappedFile> MappedFile::open(const std::string& path, std::uint64_t bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CheckpointFault{path + ": open failed: " + std::strerror(errno)};
  auto file = take(fd, path, bytes);
  // The mapping stays without it, and a process may have few descriptors.
  if (file) ::close(std::exchange(file.value().fd_, -1));
  return file;
}

Checked<MappedFile> MappedFile::take(int fd, const std::string& path, std::uint64_t bytes) {
  MappedFile file(fd, path, nullptr, bytes);
  struct stat facts {};
  if (::fstat(fd, &facts) != 0 || static_cast<std::uint64_t>(facts.st_size) != bytes) {
    return CheckpointFault{path + ": is not " + std::to_string(bytes) + " bytes long", true};
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return CheckpointFault{path + ": mmap failed: " + std::strerror(errno)};
  }
  file.data_ = static_cast<const char*>(data);
  // Samples lie all over the file: what follows one is not read next.
  ::madvise(data, bytes, MADV_RANDOM);
  return file;
}

void MappedFile::will_need(std::uint64_t offset, std::uint64_t bytes) const {
  const Pages pages = pages_around(data_, offset, bytes);
  ::madvise(pages.begin, pages.bytes, MADV_WILLNEED);
}

bool MappedFile::load(std::uint64_t offset, std::uint64_t bytes) const {
  const Pages pages = pages_around(data_, offset, bytes);
  int result = 0;
  do {
    result = ::madvise(pages.begin, pages.bytes, MADV_POPULATE_READ);
  } while (result != 0 && errno == EINTR);
  return result == 0 || errno == EINVAL;  // EINVAL: a kernel that does not know the advice
}

}  // namespace muster
