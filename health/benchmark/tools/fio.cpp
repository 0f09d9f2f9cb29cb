#include "health/benchmark/tools/fio.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// Enough at a time to fill the queues of a fast disk.
constexpr std::size_t threads_max = 8;
constexpr std::uint64_t page_bytes = 4096;

std::string system_text(int error_number) {
  return std::generic_category().message(error_number);
}

class ProbeFile {
 public:
  explicit ProbeFile(int fd) : fd_(fd) {}
  ~ProbeFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  ProbeFile(ProbeFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Where the file system has no files without a name, one that loses it at once.
int open_and_unlink(const std::string& directory) {
  std::string path = directory + "/.muster-probe-XXXXXX";
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd >= 0) ::unlink(path.c_str());
  return fd;
}

ProbeFile open_probe_file(const std::string& directory) {
  int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  const bool must_have_name = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
  if (fd < 0 && must_have_name) fd = open_and_unlink(directory);
  // Asked for afterwards: a file that is created so stays behind where this is refused.
  if (fd >= 0) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_DIRECT);
  return ProbeFile(fd);
}

using Block = std::unique_ptr<char, decltype(&std::free)>;

Block new_block() {
  return {static_cast<char*>(std::aligned_alloc(page_bytes, disk_block_bytes)), &std::free};
}

// What cannot be made smaller, so that no layer stores less than is written.
void fill(char* block, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::uint64_t at = 0; at < disk_block_bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(block + at, &word, sizeof word);
  }
}

// Each page says which one it is: none is like another, and one that comes back from elsewhere
// shows.
void stamp(char* block, std::uint64_t number) {
  for (std::uint64_t at = 0; at < disk_block_bytes; at += page_bytes) {
    const std::uint64_t mark = number * disk_block_bytes + at;
    std::memcpy(block + at, &mark, sizeof mark);
  }
}

bool has_stamps(const char* block, std::uint64_t number) {
  for (std::uint64_t at = 0; at < disk_block_bytes; at += page_bytes) {
    std::uint64_t mark = 0;
    std::memcpy(&mark, block + at, sizeof mark);
    if (mark != number * disk_block_bytes + at) return false;
  }
  return true;
}

// Blocks of the file, taken by all threads in turn until all are done or the time is over.
class BlockRun {
 public:
  BlockRun(std::uint64_t blocks, std::chrono::milliseconds time)
      : blocks_(blocks), end_(Clock::now() + time) {}

  // `one` returns why it failed, or nothing. The number of blocks that were done, from the first
  // on.
  Result<std::uint64_t> run(
      const std::function<std::string(char* block, std::uint64_t number)>& one) {
    std::vector<std::thread> threads;
    const std::size_t wanted = std::min<std::uint64_t>(threads_max, blocks_);
    try {
      for (std::size_t i = 0; i < wanted; ++i)
        threads.emplace_back([this, &one, i] { work(one, i); });
    } catch (const std::system_error&) {
      if (threads.empty()) work(one, 0);  // the fewer do it
    }
    for (std::thread& thread : threads) thread.join();
    if (!why_.empty()) return Error{why_};
    return std::min(next_.load(), blocks_);
  }

 private:
  void work(const std::function<std::string(char*, std::uint64_t)>& one, std::size_t thread) {
    const Block block = new_block();
    if (!block) return fail("there is no memory for a block");
    fill(block.get(), thread);
    while (!has_failed_) {
      // The first ones in any case: there shall be a number.
      const std::uint64_t number = next_;
      if (number >= blocks_ || (number >= threads_max && Clock::now() >= end_)) return;
      std::uint64_t taken = number;
      if (!next_.compare_exchange_strong(taken, number + 1)) continue;
      const std::string why = one(block.get(), number);
      if (!why.empty()) return fail(why);
    }
  }
  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (why_.empty()) why_ = why;
    has_failed_ = true;
  }

  std::uint64_t blocks_;
  Clock::time_point end_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;
  std::string why_;
};

// All of a block, by a call that may do less. Empty, or why not.
template <class Call>
std::string whole_block(Call call, std::uint64_t number) {
  std::uint64_t done = 0;
  while (done < disk_block_bytes) {
    const ssize_t now =
        call(done, disk_block_bytes - done, static_cast<off_t>(number * disk_block_bytes + done));
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return system_text(errno);
    if (now == 0) return "the file is shorter than what was written";
    done += static_cast<std::uint64_t>(now);
  }
  return {};
}

double mb_per_s(std::uint64_t blocks, Clock::time_point begun) {
  const std::chrono::duration<double> took = Clock::now() - begun;
  return static_cast<double>(blocks * disk_block_bytes) / took.count() / 1e6;
}

Result<std::uint64_t> write_blocks(int fd, std::uint64_t blocks, std::chrono::milliseconds time) {
  BlockRun run(blocks, time);
  const auto written = run.run([fd](char* block, std::uint64_t number) {
    stamp(block, number);
    const auto write = [&](std::uint64_t at, std::uint64_t bytes, off_t offset) {
      return ::pwrite(fd, block + at, bytes, offset);
    };
    const std::string why = whole_block(write, number);
    return why.empty() ? why : "cannot write: " + why;
  });
  if (written && ::fsync(fd) != 0) return Error{"cannot flush: " + system_text(errno)};
  return written;
}

Result<std::uint64_t> read_blocks(int fd, std::uint64_t blocks, std::chrono::milliseconds time) {
  BlockRun run(blocks, time);
  return run.run([fd](char* block, std::uint64_t number) {
    const auto read = [&](std::uint64_t at, std::uint64_t bytes, off_t offset) {
      return ::pread(fd, block + at, bytes, offset);
    };
    const std::string why = whole_block(read, number);
    if (!why.empty()) return "cannot read: " + why;
    return has_stamps(block, number) ? std::string() : "other data came back than was written";
  });
}

// Its free bytes.
Result<std::uint64_t> look_at(const std::string& directory, int fd) {
  struct statfs found {};
  if (::fstatfs(fd, &found) != 0) return Error{directory + ": " + system_text(errno)};
  if (found.f_type == TMPFS_MAGIC || found.f_type == RAMFS_MAGIC) {
    return Error{directory + " lies in memory, not on a disk"};
  }
  return static_cast<std::uint64_t>(found.f_bavail) * static_cast<std::uint64_t>(found.f_bsize);
}

}  // namespace

std::uint64_t disk_probe_bytes(std::uint64_t wanted, std::uint64_t free_bytes) {
  const auto most =
      static_cast<std::uint64_t>(static_cast<double>(free_bytes) * disk_probe_free_share);
  return std::min(wanted, most) / disk_block_bytes * disk_block_bytes;
}

Result<DiskRates> disk_rates(const DiskProbeOptions& options) {
  const ProbeFile file = open_probe_file(options.directory);
  if (!file.is_open())
    return Error{"cannot create a file in " + options.directory + ": " + system_text(errno)};
  const auto free_bytes = look_at(options.directory, file.fd());
  if (!free_bytes) return free_bytes.error();
  const std::uint64_t bytes = disk_probe_bytes(options.bytes, *free_bytes);
  if (bytes < std::min(options.bytes, disk_probe_least_bytes)) {
    return Error{"a twentieth of the free space of " + options.directory + " is " +
                 std::to_string(bytes >> 20) + " MiB: too little"};
  }
  DiskRates rates;
  auto begun = Clock::now();
  const auto written = write_blocks(file.fd(), bytes / disk_block_bytes, options.time / 2);
  if (!written) return written.error();
  rates.write_mb_per_s = mb_per_s(*written, begun);
  // For file systems that were not written past the cache.
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  begun = Clock::now();
  const auto read = read_blocks(file.fd(), *written, options.time / 2);
  if (!read) return read.error();
  rates.read_mb_per_s = mb_per_s(*read, begun);
  return rates;
}

}  // namespace muster
