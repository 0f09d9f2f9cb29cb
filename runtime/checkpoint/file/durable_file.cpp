#include "runtime/checkpoint/file/durable_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

namespace muster {
namespace {

CheckpointFault failed(const char* call, const std::string& path, int code = errno) {
  return {path + ": " + call + " failed: " + std::strerror(code)};
}

bool not_supported(int code) {
  return code == EOPNOTSUPP || code == ENOSYS || code == EINVAL;
}

// posix_fallocate would write zeros where fallocate is not supported; asking for free space costs
// nothing.
Checked<NoValue> reserve(int fd, const std::string& path, std::uint64_t bytes) {
  if (bytes == 0 || ::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0) return NoValue{};
  if (!not_supported(errno)) return failed("fallocate", path);
  struct statvfs space {};
  if (::fstatvfs(fd, &space) != 0) return failed("fstatvfs", path);
  const std::uint64_t free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  if (free_bytes < bytes) return failed("reserving space", path, ENOSPC);
  return NoValue{};
}

std::string temporary_of(const std::string& path) {
  return path + ".tmp";
}

}  // namespace

int write_whole(int fd, std::uint64_t offset, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put == 0 ? EIO : errno;
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return 0;
}

Checked<CheckpointFile> CheckpointFile::create(const std::string& path, std::uint64_t bytes) {
  Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return failed("open for writing", path);
  if (auto reserved = reserve(fd.get(), path, bytes); !reserved) return reserved.fault();
  return CheckpointFile(std::move(fd), path);
}

Checked<CheckpointFile> CheckpointFile::open_for_reading(const std::string& path) {
  // Opening a pipe would wait for its writer; regular files do not know the flag.
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return failed("open", path);
  return CheckpointFile(std::move(fd), path);
}

Checked<NoValue> CheckpointFile::write_at(std::uint64_t offset, const void* data,
                                          std::size_t bytes) {
  const int error = write_whole(fd_.get(), offset, {static_cast<const char*>(data), bytes});
  if (error != 0) return failed("write", path_, error);
  return NoValue{};
}

Checked<NoValue> CheckpointFile::read_at(std::uint64_t offset, void* data,
                                         std::size_t bytes) const {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_.get(), at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", path_);
    if (got == 0) {
      return CheckpointFault{path_ + ": ends early, at byte " + std::to_string(offset), true};
    }
    at += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return NoValue{};
}

Checked<std::uint64_t> CheckpointFile::size() const {
  struct stat facts {};
  if (::fstat(fd_.get(), &facts) != 0) return failed("fstat", path_);
  if (!S_ISREG(facts.st_mode)) return CheckpointFault{path_ + ": is not a regular file"};
  return static_cast<std::uint64_t>(facts.st_size);
}

Checked<NoValue> CheckpointFile::set_size(std::uint64_t bytes) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) return failed("ftruncate", path_);
  return NoValue{};
}

Checked<NoValue> CheckpointFile::sync() {
  if (::fdatasync(fd_.get()) != 0) return failed("fdatasync", path_);
  return NoValue{};
}

Checked<NoValue> CheckpointFile::sync_and_close() {
  Descriptor fd = std::move(fd_);
  if (::fdatasync(fd.get()) != 0) return failed("fdatasync", path_);
  if (::close(fd.release()) != 0) return failed("close", path_);
  return NoValue{};
}

Checked<CheckpointLock> CheckpointLock::take(const std::string& directory,
                                             const std::string& name) {
  const std::string path = directory + "/" + name;
  Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return failed("open for locking", path);
  constexpr auto limit = std::chrono::seconds(10);
  const auto begin = std::chrono::steady_clock::now();
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    if (std::chrono::steady_clock::now() - begin > limit) {
      return CheckpointFault{path + ": another process has locked it for 10 s: end that one first"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return CheckpointLock(std::move(fd));
}

bool may_exist(const std::string& path) {
  std::error_code code;
  return std::filesystem::exists(path, code) || code;
}

Checked<NoValue> sync_checkpoint_directory(const std::string& directory) {
  const Descriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return failed("open directory", directory);
  if (::fsync(fd.get()) != 0) return failed("fsync directory", directory);
  return NoValue{};
}

Checked<NoValue> make_checkpoint_directory(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code code;
  std::vector<fs::path> parents;  // of what is missing, from the inside out
  for (fs::path at = fs::absolute(directory); at.has_relative_path() && !fs::exists(at, code);
       at = at.parent_path()) {
    parents.push_back(at.parent_path());
  }
  fs::create_directories(directory, code);
  if (code) return CheckpointFault{directory + ": cannot be created: " + code.message()};
  for (const fs::path& parent : parents) {
    if (auto synced = sync_checkpoint_directory(parent.string()); !synced) return synced;
  }
  return NoValue{};
}

ReplacingFile::ReplacingFile(std::string directory, const std::string& name, CheckpointFile file)
    : directory_(std::move(directory)),
      path_(directory_ + "/" + name),
      temporary_(temporary_of(path_)),
      file_(std::move(file)) {}

ReplacingFile::ReplacingFile(ReplacingFile&& other) noexcept
    : directory_(std::move(other.directory_)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      file_(std::move(other.file_)) {}

ReplacingFile::~ReplacingFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Checked<ReplacingFile> ReplacingFile::create(const std::string& directory, const std::string& name,
                                             std::uint64_t bytes) {
  const std::string temporary = temporary_of(directory + "/" + name);
  auto file = CheckpointFile::create(temporary, bytes);
  if (file) return ReplacingFile(directory, name, std::move(file.value()));
  ::unlink(temporary.c_str());  // there may have been no room for it
  return file.fault();
}

Checked<NoValue> ReplacingFile::write_at(std::uint64_t offset, const void* data,
                                         std::size_t bytes) {
  return file_.write_at(offset, data, bytes);
}

Checked<NoValue> ReplacingFile::replace(const std::function<Checked<NoValue>()>& may_replace) {
  if (auto synced = file_.sync_and_close(); !synced) return synced;
  if (auto may = may_replace(); !may) return may;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failed("rename", temporary_);
  temporary_.clear();
  return sync_checkpoint_directory(directory_);
}

Checked<NoValue> replace_durably(const std::string& directory, const std::string& name,
                                 std::string_view text,
                                 const std::function<Checked<NoValue>()>& may_replace) {
  auto file = ReplacingFile::create(directory, name, text.size());
  if (!file) return file.fault();
  if (auto put = file.value().write_at(0, text.data(), text.size()); !put) return put;
  return file.value().replace(may_replace);
}

Checked<NoValue> append_line_durably(const std::string& directory, const std::string& name,
                                     std::string_view line) {
  const std::string path = directory + "/" + name;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return failed("open for appending", path);
  struct stat facts {};
  char last = '\n';
  std::string text(line);
  int result = ::fstat(fd, &facts);
  if (result == 0 && facts.st_size > 0)
    result = ::pread(fd, &last, 1, facts.st_size - 1) == 1 ? 0 : -1;
  if (last != '\n') text.insert(0, "\n");
  if (result == 0) {
    errno = ENOSPC;  // a short write says nothing itself
    result = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : -1;
  }
  if (result == 0) result = ::fsync(fd);
  const int code = errno;
  if (::close(fd) != 0 || result != 0) return failed("append", path, code);
  return sync_checkpoint_directory(directory);
}

Checked<std::string> read_checkpoint_text(const std::string& path, std::uint64_t limit_bytes) {
  auto file = CheckpointFile::open_for_reading(path);
  if (!file) return file.fault();
  auto size = file.value().size();
  if (!size) return size.fault();
  if (size.value() > limit_bytes) {
    return CheckpointFault{path + ": holds " + std::to_string(size.value()) +
                           " bytes, more than the limit of " + std::to_string(limit_bytes)};
  }
  std::string text(size.value(), '\0');
  if (auto got = file.value().read_at(0, text.data(), text.size()); !got) return got.fault();
  return text;
}

}  // namespace muster
