#include "health/read/kernel_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <iterator>

#include "health/read/files.h"

namespace muster {

namespace {

constexpr std::size_t bytes_at_once = 1u << 20;
// The kernel refuses to give a record into less room than it needs: 8 KiB.
constexpr std::size_t record_bytes_max = 16u << 10;
// A log that is overwritten faster than it is read must not hold its reader for ever.
constexpr int overtaken_max = 64;

}  // namespace

KernelLog::KernelLog(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {
  struct stat kind {};
  if (file_ < 0 || ::fstat(file_, &kind) != 0) fail(errno);
  is_regular_ = S_ISREG(kind.st_mode);
  if (S_ISFIFO(kind.st_mode)) own_writer_ = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (S_ISDIR(kind.st_mode)) fail(EISDIR);
}

KernelLog::~KernelLog() {
  close();
}

void KernelLog::close() {
  if (file_ >= 0) ::close(file_);
  if (own_writer_ >= 0) ::close(own_writer_);
  file_ = own_writer_ = -1;
}

void KernelLog::fail(int error_number) {
  error_ = failed_reading(error_number).error;
  close();
}

std::vector<KernelLine> KernelLog::read() {
  std::vector<KernelLine> lines;
  std::array<char, record_bytes_max> part{};
  std::size_t taken = 0;
  int overtaken = 0;
  may_have_more_ = false;
  while (file_ >= 0) {
    may_have_more_ = taken >= bytes_at_once || overtaken >= overtaken_max;
    if (may_have_more_) break;
    const ssize_t size = ::read(file_, part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EPIPE) {
      ++overtaken;
      continue;
    }
    if (size < 0 && errno != EAGAIN) fail(errno);
    if (size <= 0) break;
    taken += static_cast<std::size_t>(size);
    auto more = parser_.feed({part.data(), static_cast<std::size_t>(size)});
    lines.insert(lines.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  }
  return lines;
}

}  // namespace muster
