// Pieces written by the kernel, several in flight, by io_uring.

#include <liburing.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>

#include "runtime/checkpoint/file/write.h"

namespace muster {
namespace {

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
    if (error_ == 0) return NoValue{};
    return CheckpointFault{path_ + ": write failed: " + std::strerror(error_)};
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

}  // namespace

Checked<std::unique_ptr<WriteEngine>> make_ring_writer(Descriptor fd, const std::string& path) {
  io_uring ring{};
  const int result = io_uring_queue_init(depth, &ring, 0);
  if (result < 0) {
    return CheckpointFault{path + ": io_uring is not to be had: " + std::strerror(-result)};
  }
  return Checked<std::unique_ptr<WriteEngine>>(
      std::make_unique<RingWriter>(std::move(fd), path, ring));
}

}  // namespace muster
