#include "runtime/checkpoint/file/write.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace muster {
namespace {

// Written each way by a trial, at most.
constexpr std::uint64_t write_trial_bytes = 128ull << 20;
// What O_DIRECT asks of offsets, lengths and addresses.
constexpr std::uint64_t direct_alignment_bytes = 4096;

struct FreeMemory {
  void operator()(char* memory) const { std::free(memory); }
};
using AlignedBuffer = std::unique_ptr<char, FreeMemory>;

std::size_t direct_length(std::size_t bytes) {
  return (bytes + direct_alignment_bytes - 1) / direct_alignment_bytes * direct_alignment_bytes;
}

bool is_direct(std::span<const char> piece) {
  return reinterpret_cast<std::uintptr_t>(piece.data()) % direct_alignment_bytes == 0 &&
         piece.size() % direct_alignment_bytes == 0;
}

AlignedBuffer make_aligned_buffer(std::size_t bytes) {
  AlignedBuffer buffer(
      static_cast<char*>(std::aligned_alloc(direct_alignment_bytes, direct_length(bytes))));
  if (!buffer) throw std::bad_alloc();
  return buffer;
}

// A copy of `piece`, padded with zeros.
std::span<const char> aligned_copy(std::span<const char> piece, AlignedBuffer& buffer) {
  const std::size_t length = direct_length(piece.size());
  std::memcpy(buffer.get(), piece.data(), piece.size());
  std::memset(buffer.get() + piece.size(), 0, length - piece.size());
  return {buffer.get(), length};
}

Checked<NoValue> written(const std::string& path, int error) {
  if (error == 0) return NoValue{};
  return CheckpointFault{path + ": write failed: " + std::strerror(error)};
}

constexpr unsigned depth = 8;

struct Flight {
  std::uint64_t offset = 0;
  std::span<const char> left;  // in `buffer` when that is not null
  AlignedBuffer buffer;
  bool is_busy = false;
};

class RingWriter final : public WriteEngine {
 public:
  RingWriter(Descriptor fd, std::string path, const io_uring& ring)
      : fd_(std::move(fd)), path_(std::move(path)), ring_(ring) {}

  ~RingWriter() override {
    waiting_.clear();
    (void)drain();
    io_uring_queue_exit(&ring_);
  }

  void put(std::uint64_t offset, std::span<const char> piece) override {
    waiting_.push_back({offset, piece});
    tend();
  }

  void tend() override {
    take_ended();
    start_waiting();
  }

  Checked<NoValue> drain() override {
    start_waiting();
    while (in_flight_ > 0) {
      const int result = io_uring_submit_and_wait(&ring_, 1);
      tend();
      if (result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY) continue;
      return CheckpointFault{path_ + ": waiting for io_uring failed: " + std::strerror(-result)};
    }
    return written(path_, error_);
  }

 private:
  void start_waiting() {
    if (error_ != 0) waiting_.clear();
    bool added = false;
    for (Flight& flight : flights_) {
      if (waiting_.empty()) break;
      if (flight.is_busy) continue;
      board(flight, waiting_.front());
      waiting_.pop_front();
      prepare(flight);
      ++in_flight_;
      added = true;
    }
    if (added) submit();
  }

  static void board(Flight& flight, const FilePiece& piece) {
    flight.offset = piece.offset;
    flight.left = piece.bytes;
    flight.is_busy = true;
    if (is_direct(piece.bytes)) return;
    flight.buffer = make_aligned_buffer(piece.bytes.size());
    flight.left = aligned_copy(piece.bytes, flight.buffer);
  }

  // The queue has a place for every flight.
  void prepare(Flight& flight) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_write(entry, fd_.get(), flight.left.data(),
                        static_cast<unsigned>(flight.left.size()), flight.offset);
    io_uring_sqe_set_data(entry, &flight);
  }

  // What the kernel does not take now stays in the queue and goes with the next.
  void submit() {
    int result = -EINTR;
    while (result == -EINTR) result = io_uring_submit(&ring_);
    if (result < 0 && result != -EAGAIN && result != -EBUSY) note_error(-result);
  }

  void take_ended() {
    io_uring_cqe* ended = nullptr;
    bool again = io_uring_sq_ready(&ring_) > 0;
    while (io_uring_peek_cqe(&ring_, &ended) == 0) {
      auto& flight = *static_cast<Flight*>(io_uring_cqe_get_data(ended));
      const int result = ended->res;
      io_uring_cqe_seen(&ring_, ended);
      again = land(flight, result) || again;
    }
    if (again) submit();
  }

  // True when the rest of the flight was prepared anew.
  bool land(Flight& flight, int result) {
    if (result > 0) {
      flight.offset += static_cast<std::uint64_t>(result);
      flight.left = flight.left.subspan(static_cast<std::size_t>(result));
    } else if (result != -EINTR && result != -EAGAIN) {
      note_error(result == 0 ? EIO : -result);
    }
    if (!flight.left.empty() && error_ == 0) {
      prepare(flight);
      return true;
    }
    flight.buffer.reset();
    flight.is_busy = false;
    --in_flight_;
    return false;
  }

  void note_error(int error) {
    if (error_ == 0) error_ = error;
  }

  const Descriptor fd_;
  const std::string path_;
  io_uring ring_;
  std::deque<FilePiece> waiting_;
  std::array<Flight, depth> flights_;
  unsigned in_flight_ = 0;
  int error_ = 0;
};

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
    return written(path_, error_);
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

using Clock = std::chrono::steady_clock;

double mb_per_s(std::uint64_t bytes, Clock::time_point begin) {
  return static_cast<double>(bytes) / 1e6 /
         std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string rate_text(WriteWay way, double mb_per_s) {
  return std::string(write_way_name(way)) + " " +
         std::to_string(static_cast<std::uint64_t>(mb_per_s)) + " MB/s";
}

using Engine = std::unique_ptr<WriteEngine>;

// For the file at `path`. A fault when this way cannot be used here.
Checked<Engine> open_write_engine(WriteWay way, const std::string& path) {
  const bool direct = way != WriteWay::buffered;
  Descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | (direct ? O_DIRECT : 0)));
  if (!fd) {
    return CheckpointFault{path + ": open for " + (direct ? "direct " : "") +
                           "writing failed: " + std::strerror(errno)};
  }
  if (way != WriteWay::direct_ring) {
    return Engine(std::make_unique<ThreadedWriter>(std::move(fd), path, direct));
  }
  io_uring ring{};
  const int result = io_uring_queue_init(depth, &ring, 0);
  if (result < 0) {
    return CheckpointFault{path + ": io_uring is not to be had: " + std::strerror(-result)};
  }
  return Engine(std::make_unique<RingWriter>(std::move(fd), path, ring));
}

}  // namespace

FileWrite::FileWrite(CheckpointFile file, std::string path, std::uint64_t bytes,
                     WriteChoice& choice)
    : file_(std::move(file)),
      path_(std::move(path)),
      bytes_(bytes),
      choice_(&choice),
      needs_trial_(!choice.way && bytes >= choice.trial_from_bytes),
      way_(choice.way.value_or(WriteWay::buffered)) {}

Checked<FileWrite> FileWrite::begin(const std::string& path, std::uint64_t bytes,
                                    WriteChoice& choice) {
  auto file = CheckpointFile::create(path, bytes);
  if (!file) return file.fault();
  FileWrite write(std::move(file.value()), path, bytes, choice);
  if (write.needs_trial_) return write;
  if (auto opened = write.open_engine(write.way_); !opened) {
    choice.way = WriteWay::buffered;
    choice.reason = opened.reason();
    if (auto other = write.open_engine(WriteWay::buffered); !other) return other.fault();
  }
  return write;
}

Checked<NoValue> FileWrite::open_engine(WriteWay way) {
  auto engine = open_write_engine(way, path_);
  if (!engine && way == WriteWay::direct_ring) {
    way = WriteWay::direct_threads;
    engine = open_write_engine(way, path_);
  }
  if (!engine) return engine.fault();
  engine_ = std::move(engine.value());
  way_ = way;
  return NoValue{};
}

void FileWrite::put(std::uint64_t offset, std::span<const char> piece) {
  if (needs_trial_) {
    kept_.push_back({offset, piece});
  } else {
    engine_->put(offset, piece);
  }
}

// Writes what is kept up to byte `end`.
Checked<NoValue> FileWrite::write_kept(WriteWay way, std::uint64_t end) {
  if (auto opened = open_engine(way); !opened) return opened;
  for (; begun_ < kept_.size() && kept_[begun_].offset < end; ++begun_) {
    engine_->put(kept_[begun_].offset, kept_[begun_].bytes);
  }
  return engine_->drain();
}

// What O_DIRECT could not write is written again, the other way; after an fdatasync that failed
// nothing is.
Checked<NoValue> FileWrite::choose_way() {
  if (!needs_trial_) return NoValue{};
  needs_trial_ = false;
  const std::uint64_t each = std::min(write_trial_bytes, bytes_ / 4);
  auto begin = Clock::now();
  if (auto wrote = write_kept(WriteWay::buffered, each); !wrote) return wrote;
  if (auto synced = file_.sync(); !synced) return synced;
  const double buffered_rate = mb_per_s(each, begin);
  const std::size_t after_first = begun_;
  begin = Clock::now();
  const auto direct = write_kept(WriteWay::direct_ring, 2 * each);
  if (!direct) begun_ = after_first;
  if (auto synced = file_.sync(); !synced) return synced;
  const double direct_rate = direct ? mb_per_s(each, begin) : 0;
  choice_->way = direct_rate > buffered_rate ? way_ : WriteWay::buffered;
  choice_->reason = rate_text(WriteWay::buffered, buffered_rate) + ", " +
                    (direct ? rate_text(way_, direct_rate) : direct.reason());
  if (way_ != *choice_->way) {
    if (auto opened = open_engine(*choice_->way); !opened) return opened;
  }
  for (; begun_ < kept_.size(); ++begun_) {
    engine_->put(kept_[begun_].offset, kept_[begun_].bytes);
  }
  kept_.clear();
  return NoValue{};
}

std::string FileWrite::description() const {
  const std::string name = write_way_name(way_);
  return choice_->reason.empty() ? name : name + " (" + choice_->reason + ")";
}

Checked<NoValue> FileWrite::finish() {
  if (auto chosen = choose_way(); !chosen) return chosen;
  const auto drained = engine_->drain();
  engine_.reset();
  if (!drained) {
    // Another way may work where this one does not.
    if (way_ != WriteWay::buffered) choice_->way = WriteWay::buffered;
    return drained;
  }
  if (way_ != WriteWay::buffered && bytes_ % direct_alignment_bytes != 0) {
    if (auto cut = file_.set_size(bytes_); !cut) return cut;
  }
  return file_.sync_and_close();
}

const char* write_way_name(WriteWay way) {
  constexpr const char* names[] = {"buffered", "threads", "io_uring"};
  return names[static_cast<std::size_t>(way)];
}

void step_back() {
  const int first = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), first + 10);
}

}  // namespace muster
