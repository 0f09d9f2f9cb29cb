#include "launcher/staging/sparse_write.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "launcher/os/fd.h"

namespace muster {

namespace {

constexpr std::size_t block_bytes = 4096;

bool is_zero(std::string_view bytes) {
  return bytes.front() == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace

bool write_sparse(int fd, std::string_view bytes) {
  const off_t position = ::lseek(fd, 0, SEEK_CUR);
  if (position < 0) return false;
  std::size_t to_boundary = block_bytes - static_cast<std::size_t>(position) % block_bytes;
  while (!bytes.empty()) {
    std::size_t run = std::min(to_boundary, bytes.size());
    const bool is_hole = is_zero(bytes.substr(0, run));
    while (run < bytes.size() && is_zero(bytes.substr(run, block_bytes)) == is_hole) {
      run += std::min(block_bytes, bytes.size() - run);
    }
    const bool done = is_hole ? ::lseek(fd, static_cast<off_t>(run), SEEK_CUR) >= 0
                              : write_all(fd, bytes.substr(0, run));
    if (!done) return false;
    bytes.remove_prefix(run);
    to_boundary = block_bytes;
  }
  return true;
}

bool end_sparse(int fd) {
  const off_t position = ::lseek(fd, 0, SEEK_CUR);
  return position >= 0 && ::ftruncate(fd, position) == 0;
}

}  // namespace muster
