// Writing files so that they are still there after a power loss.
//
// A file's data and its name are made durable separately: fsync of the file, then fsync of its
// directory. After a failed fsync nothing is tried again on the same file, for the kernel may have
// dropped the dirty pages. Every function returns the failing call and path as a sentence. No
// state, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/protocol/descriptor.h"

namespace muster {

// Writes all of it; 0 or the error.
int write_whole(int fd, std::uint64_t offset, std::span<const char> bytes);

// An open file; closed without a check unless sync_and_close() was called.
class CheckpointFile {
 public:
  // Creates or truncates `path` for writing and reserves `bytes` on the device (fallocate(2); where
  // that is not supported, free space is checked), so that a full disk is found before any byte
  // moves.
  static Checked<CheckpointFile> create(const std::string& path, std::uint64_t bytes);
  static Checked<CheckpointFile> open_for_reading(const std::string& path);

  Checked<NoValue> write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  Checked<NoValue> read_at(std::uint64_t offset, void* data, std::size_t bytes) const;
  Checked<std::uint64_t> size() const;
  Checked<NoValue> set_size(std::uint64_t bytes);
  Checked<NoValue> sync();  // fdatasync
  // fdatasync and close, both checked: network file systems report errors at close.
  Checked<NoValue> sync_and_close();

 private:
  CheckpointFile(Descriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Descriptor fd_;
  std::string path_;
};

// Keeps every other process that asks for the same lock waiting, until it is destroyed. Where the
// file system has no locks it is granted at once.
class CheckpointLock {
 public:
  // Locks directory/name, which is created when missing. A fault when another process holds it for
  // 10 s.
  static Checked<CheckpointLock> take(const std::string& directory, const std::string& name);

 private:
  explicit CheckpointLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;  // the lock ends with it
};

// Whether something is there, or nobody can tell.
bool may_exist(const std::string& path);

// fsync of a directory: makes the names in it durable.
Checked<NoValue> sync_checkpoint_directory(const std::string& directory);

// Creates `directory` and its parents when missing; every name that was made is durable.
Checked<NoValue> make_checkpoint_directory(const std::string& directory);

// directory/name written anew, piece by piece, under a temporary name: the old file stays until
// replace(), and for good when this is destroyed before.
class ReplacingFile {
 public:
  // Reserves `bytes` as CheckpointFile does.
  static Checked<ReplacingFile> create(const std::string& directory, const std::string& name,
                                       std::uint64_t bytes);
  ~ReplacingFile();  // without replace(), the temporary file goes: it would only take room
  ReplacingFile(ReplacingFile&& other) noexcept;
  ReplacingFile& operator=(ReplacingFile&&) = delete;

  Checked<NoValue> write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  // All is written: fsync, rename, fsync of the directory. `may_replace` is asked when only the
  // rename is left; with a fault it does not happen.
  Checked<NoValue> replace(const std::function<Checked<NoValue>()>& may_replace = [] {
    return NoValue{};
  });

 private:
  ReplacingFile(std::string directory, const std::string& name, CheckpointFile file);
  std::string directory_;
  std::string path_;
  std::string temporary_;  // empty: there is none any more
  CheckpointFile file_;
};

// The same with all of it at once.
Checked<NoValue> replace_durably(
    const std::string& directory, const std::string& name, std::string_view text,
    const std::function<Checked<NoValue>()>& may_replace = [] { return NoValue{}; });

// Appends one line and fsyncs; a torn last line is first ended by "\n" so that it cannot swallow
// this one.
Checked<NoValue> append_line_durably(const std::string& directory, const std::string& name,
                                     std::string_view line);

// The whole file, refused above `limit` bytes.
Checked<std::string> read_checkpoint_text(const std::string& path, std::uint64_t limit_bytes);

}  // namespace muster
