// Pieces written by threads, each with one blocking call at a time.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/checkpoint/file/write.h"

namespace muster {
namespace {

constexpr std::size_t direct_threads = 8;
// The system starts to write this much at a time, while the next is filled.
constexpr std::uint64_t sync_window_bytes = 64ull << 20;

class ThreadedWriter final : public WriteEngine {
 public:
  ThreadedWriter(Descriptor fd, std::string path, bool direct)
      : fd_(std::move(fd)), path_(std::move(path)), direct_(direct) {}

  void put(std::uint64_t offset, std::span<const char> piece) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back({offset, piece});
      ++unfinished_;
    }
    changed_.notify_one();
    if (threads_.size() < (direct_ ? direct_threads : 1)) {
      threads_.emplace_back([this](const std::stop_token& closing) { work(closing); });
    }
  }

  Checked<NoValue> drain() override {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [this] { return unfinished_ == 0; });
    if (error_ == 0) return NoValue{};
    return CheckpointFault{path_ + ": write failed: " + std::strerror(error_)};
  }

 private:
  void work(const std::stop_token& closing) {
    step_back();
    AlignedBuffer buffer;
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, closing, [this] { return !waiting_.empty(); })) {
      const FilePiece piece = waiting_.front();
      waiting_.pop_front();
      const bool wanted = error_ == 0;
      lock.unlock();
      const int error = wanted ? write(piece, buffer) : 0;
      lock.lock();
      if (error_ == 0) error_ = error;
      if (--unfinished_ == 0) finished_.notify_all();
    }
  }

  int write(const FilePiece& piece, AlignedBuffer& buffer) {
    if (!direct_) return write_buffered(piece);
    if (is_direct(piece.bytes)) return write_whole(fd_.get(), piece.offset, piece.bytes);
    buffer = make_aligned_buffer(piece.bytes.size());
    return write_whole(fd_.get(), piece.offset, aligned_copy(piece.bytes, buffer));
  }

  // One thread: the windows follow each other.
  int write_buffered(const FilePiece& piece) {
    const int error = write_whole(fd_.get(), piece.offset, piece.bytes);
    if (error != 0) return error;
    window_end_ = piece.offset + piece.bytes.size();
    if (window_end_ - window_begin_ < sync_window_bytes) return 0;
    // Both only make things quicker, so failures are left to fdatasync.
    const auto at = [](std::uint64_t bytes) { return static_cast<off_t>(bytes); };
    (void)::sync_file_range(fd_.get(), at(window_begin_), at(window_end_ - window_begin_),
                            SYNC_FILE_RANGE_WRITE);
    if (written_end_ > written_begin_) {
      const auto length = at(written_end_ - written_begin_);
      (void)::sync_file_range(
          fd_.get(), at(written_begin_), length,
          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
      (void)::posix_fadvise(fd_.get(), at(written_begin_), length, POSIX_FADV_DONTNEED);
    }
    written_begin_ = window_begin_;
    written_end_ = window_end_;
    window_begin_ = window_end_;
    return 0;
  }

  const Descriptor fd_;
  const std::string path_;
  const bool direct_;
  std::uint64_t window_begin_ = 0;  // written since the system was last asked to
  std::uint64_t window_end_ = 0;
  std::uint64_t written_begin_ = 0;  // what it was asked for
  std::uint64_t written_end_ = 0;

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  std::condition_variable finished_;
  std::deque<FilePiece> waiting_;
  std::size_t unfinished_ = 0;
  int error_ = 0;
  std::vector<std::jthread> threads_;  // end before all else
};

}  // namespace

void step_back() {
  const int first = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), first + 10);
}

std::unique_ptr<WriteEngine> make_threaded_writer(Descriptor fd, const std::string& path,
                                                  bool direct) {
  return std::make_unique<ThreadedWriter>(std::move(fd), path, direct);
}

}  // namespace muster
