// Hashes of files read earlier, so that a snapshot reads only what changed. One file per source
// directory below `<blobs>/cache/`, replaced after every snapshot; losing it costs time only, so an
// unreadable one counts as empty and a failed save is not an error.
//
// Format: "muster hash cache 1\n", then records ended by a zero byte, numbers decimal:
//   <hash> <size> <modified ns> <changed ns> <inode> <device> <path, to the zero byte>
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>

#include "launcher/os/fd.h"

namespace muster {

// What tells an unchanged file from a changed one.
struct FileFacts {
  std::int64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;  // inode change time
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  bool operator==(const FileFacts&) const = default;
};

inline FileFacts facts_of(const struct stat& facts) {
  constexpr std::int64_t second_ns = 1'000'000'000;
  return {facts.st_size, facts.st_mtim.tv_sec * second_ns + facts.st_mtim.tv_nsec,
          facts.st_ctim.tv_sec * second_ns + facts.st_ctim.tv_nsec, facts.st_ino, facts.st_dev};
}

// The mark by which a file that nobody may write to shows that somebody did: a constant
// modification time (2001-09-09), which any write moves.
inline constexpr std::time_t untouched_time = 1'000'000'000;

inline bool mark_untouched(const Fd& file) {
  const std::array<timespec, 2> times{timespec{0, UTIME_NOW}, timespec{untouched_time, 0}};
  return ::futimens(file.get(), times.data()) == 0;
}

inline bool is_untouched(const struct stat& facts) {
  return S_ISREG(facts.st_mode) && facts.st_mtim.tv_sec == untouched_time &&
         facts.st_mtim.tv_nsec == 0;
}

class HashCache {
 public:
  static HashCache load(const std::filesystem::path& file);
  void save(const std::filesystem::path& file) const;

  // The hash of the file when it was remembered with the very same facts; null otherwise.
  const std::string* find(const std::string& path, const FileFacts& facts) const;
  void remember(const std::string& path, const FileFacts& facts, std::string hash);

  bool operator==(const HashCache&) const = default;

 private:
  struct Entry {
    FileFacts facts;
    std::string hash;
    bool operator==(const Entry&) const = default;
  };

  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace muster
