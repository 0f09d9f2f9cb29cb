// Preloaded into a process (LD_PRELOAD): notes what it does to the files below a directory, ends it
// before a chosen operation, or lets the disk be full for a while. io_uring passes it by.

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

#include "tests/runtime/file_ops_log.h"

using muster::test::FileOp;
using muster::test::FileOpHead;

namespace {

template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(name) real(static_cast<decltype(::name)*>(nullptr), #name)

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Shim {
  std::mutex mutex;
  std::string root;
  int log = -1;
  std::uint64_t operations = 0;
  std::uint64_t end = ~0ull;
  std::uint64_t bytes = 0;
  std::uint64_t full_after = ~0ull;
  std::uint64_t full_times = 0;

  Shim() {
    if (const char* text = std::getenv(muster::test::shim_root)) root = text;
    end = number_of(muster::test::shim_end, ~0ull);
    if (const char* text = std::getenv(muster::test::shim_full)) {
      char* rest = nullptr;
      full_after = std::strtoull(text, &rest, 10);
      full_times = std::strtoull(rest, nullptr, 10);
    }
    if (const char* path = std::getenv(muster::test::shim_log)) {
      log = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    }
  }

  bool is_ours(const std::string& path) const {
    return !root.empty() && path.starts_with(root) &&
           (path.size() == root.size() || path[root.size()] == '/');
  }

  // Before an operation.
  void count() {
    if (++operations >= end) ::kill(::getpid(), SIGKILL);
  }

  bool is_full(const std::string& path, std::uint64_t wanted) {
    if (!is_ours(path)) return false;
    bytes += wanted;
    if (bytes <= full_after || full_times == 0) return false;
    --full_times;
    return true;
  }

  void note(FileOp op, const std::string& first, std::uint64_t offset = 0,
            std::string_view second = {}) const {
    if (log < 0) return;
    const FileOpHead head{op, static_cast<std::uint32_t>(first.size()), second.size(), offset};
    std::string record(reinterpret_cast<const char*>(&head), sizeof head);
    record += first;
    record += second;
    if (REAL(write)(log, record.data(), record.size()) < 0) ::kill(::getpid(), SIGKILL);
  }
};

Shim& shim() {
  static Shim* one = new Shim;  // threads may still write when main has ended
  return *one;
}

std::string path_of(int fd) {
  char path[4096];
  const ssize_t length =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

std::string path_at(int directory, const char* name) {
  if (name[0] == '/') return name;
  if (directory != AT_FDCWD) return path_of(directory) + "/" + name;
  char here[4096];
  return std::string(::getcwd(here, sizeof here)) + "/" + name;
}

// Does an operation on what may be ours; `noted` is called when it has succeeded.
template <class Act, class Noted>
auto done_to(const std::string& path, Act act, Noted noted) {
  Shim& one = shim();
  if (!one.is_ours(path)) return act();
  const std::lock_guard lock(one.mutex);
  one.count();
  const auto result = act();
  const int code = errno;
  if (result >= 0) noted(one);
  errno = code;
  return result;
}

template <class Act>
int open_noted(const std::string& path, int flags, Act act) {
  if ((flags & (O_CREAT | O_TRUNC)) == 0 || (flags & O_DIRECTORY) != 0) return act();
  struct stat facts {};
  const bool was_there = ::stat(path.c_str(), &facts) == 0;
  return done_to(path, act, [&](Shim& one) {
    if (!was_there) one.note(FileOp::create, path);
    if (was_there && (flags & O_TRUNC) != 0) one.note(FileOp::truncate, path, 0);
  });
}

mode_t mode_of(int flags, va_list rest) {
  return (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
}

ssize_t write_noted(int fd, const void* data, size_t bytes, off_t offset) {
  const std::string path = path_of(fd);
  return done_to(
      path,
      [&]() -> ssize_t {
        if (!shim().is_full(path, bytes)) return REAL(pwrite)(fd, data, bytes, offset);
        errno = ENOSPC;
        return -1;
      },
      [&](Shim& one) {
        one.note(FileOp::write, path, static_cast<std::uint64_t>(offset),
                 {static_cast<const char*>(data), bytes});
      });
}

int sync_noted(int fd, int (*act)(int)) {
  const std::string path = path_of(fd);
  struct stat facts {};
  const bool is_directory = ::fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode);
  return done_to(
      path, [&] { return act(fd); },
      [&](Shim& one) {
        one.note(is_directory ? FileOp::sync_directory : FileOp::sync_file, path);
      });
}

}  // namespace

extern "C" {

int open(const char* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_noted(path_at(AT_FDCWD, name), flags, [&] { return REAL(open)(name, flags, mode); });
}
int open64(const char* name, int flags, ...) __attribute__((alias("open")));

int openat(int directory, const char* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_noted(path_at(directory, name), flags,
                    [&] { return REAL(openat)(directory, name, flags, mode); });
}
int openat64(int directory, const char* name, int flags, ...) __attribute__((alias("openat")));

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return write_noted(fd, data, bytes, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off_t offset)
    __attribute__((alias("pwrite")));

// Only appending to files below the root: logs.
ssize_t write(int fd, const void* data, size_t bytes) {
  if (!shim().is_ours(path_of(fd))) return REAL(write)(fd, data, bytes);
  struct stat facts {};
  ::fstat(fd, &facts);
  return write_noted(fd, data, bytes, facts.st_size);
}

// Reserved space is zeros at the end of the file, as far as its length goes.
int fallocate(int fd, int mode, off_t offset, off_t length) {
  const std::string path = path_of(fd);
  const auto end = static_cast<std::uint64_t>(offset + length);
  return done_to(
      path,
      [&] {
        if (!shim().is_full(path, 0)) return REAL(fallocate)(fd, mode, offset, length);
        errno = ENOSPC;
        return -1;
      },
      [&](Shim& one) { one.note(FileOp::truncate, path, end); });
}
int fallocate64(int fd, int mode, off_t offset, off_t length) __attribute__((alias("fallocate")));

int ftruncate(int fd, off_t length) {
  const std::string path = path_of(fd);
  return done_to(
      path, [&] { return REAL(ftruncate)(fd, length); },
      [&](Shim& one) { one.note(FileOp::truncate, path, static_cast<std::uint64_t>(length)); });
}
int ftruncate64(int fd, off_t length) __attribute__((alias("ftruncate")));

int fsync(int fd) {
  return sync_noted(fd, REAL(fsync));
}
int fdatasync(int fd) {
  return sync_noted(fd, REAL(fdatasync));
}

int mkdir(const char* name, mode_t mode) {
  const std::string path = path_at(AT_FDCWD, name);
  return done_to(
      path, [&] { return REAL(mkdir)(name, mode); },
      [&](Shim& one) { one.note(FileOp::make_directory, path); });
}

int rename(const char* from, const char* to) {
  const std::string first = path_at(AT_FDCWD, from);
  const std::string second = path_at(AT_FDCWD, to);
  return done_to(
      first, [&] { return REAL(rename)(from, to); },
      [&](Shim& one) { one.note(FileOp::rename, first, 0, second); });
}

int unlink(const char* name) {
  const std::string path = path_at(AT_FDCWD, name);
  return done_to(
      path, [&] { return REAL(unlink)(name); }, [&](Shim& one) { one.note(FileOp::remove, path); });
}

int unlinkat(int directory, const char* name, int flags) {
  const std::string path = path_at(directory, name);
  return done_to(
      path, [&] { return REAL(unlinkat)(directory, name, flags); },
      [&](Shim& one) { one.note(FileOp::remove, path); });
}

int rmdir(const char* name) {
  const std::string path = path_at(AT_FDCWD, name);
  return done_to(
      path, [&] { return REAL(rmdir)(name); }, [&](Shim& one) { one.note(FileOp::remove, path); });
}

int remove(const char* name) {
  const std::string path = path_at(AT_FDCWD, name);
  return done_to(
      path, [&] { return REAL(remove)(name); }, [&](Shim& one) { one.note(FileOp::remove, path); });
}

}  // extern "C"
