// The output of one rank on its way to the controller: a file, filled from the rank's pipe and read
// from where the controller has not got it yet. Outlives the agent; acknowledged bytes give their
// disk space back. Owned by an attempt, on the agent's thread; after an agent's death by its
// keeper.
//
//   0 ──── acked ──── sent ──── size ──── in the pipe        acked is kept in `<file>.acked`
//
// While the disk is full, bytes go from the pipe to the controller: the file has a hole there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "launcher/os/fd.h"
#include "scheduler/model/ids.h"
#include "scheduler/model/result.h"

namespace muster {

// What a rank has as stdout and stderr: a FIFO beside its spool, so that a program that opens
// /dev/stderr anew empties nothing, and a rank that is too fast waits by itself. Never at its end:
// the holder is a reader and a writer. Its bytes live as long as one process holds it. Moved by one
// process at a time, the agent or, once that is dead, the holder of its lock.
//
// splice(2) takes out of the pipe what it has put into the file's cache and nothing else, both
// before a SIGKILL can act. So a holder that is killed at any moment neither loses nor repeats a
// byte: the file's size says where the next one goes. Where a file system cannot splice, bytes are
// copied, and a SIGKILL in that moment costs up to `copy_bytes`.

// All pipes of a user together have 64 MiB by default (pipe(7)), and the smallest size beyond: that
// is room for 256 ranks.
inline constexpr std::int64_t output_pipe_bytes = 256 << 10;

class OutputPipe {
 public:
  // Makes the FIFO where there is none.
  static Result<OutputPipe> open(std::string path);

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }
  std::int64_t capacity() const { return capacity_; }
  // Written by the rank and not yet moved.
  std::int64_t waiting_bytes() const;
  // Moves what is there, at most `limit_bytes`, to `offset` of `file`; 0 when there is nothing.
  // After an Error (no space, say) every byte is still here.
  Result<std::int64_t> move_to(int file, std::int64_t offset, std::int64_t limit_bytes);
  // The first bytes of what is there, which stays there; as many as one look gives.
  std::string peek() const;
  // Takes the first bytes out: `bytes`, which were peeked.
  void drop(std::int64_t bytes);
  // The end of a name; whoever has the pipe open goes on.
  void unlink() const;

 private:
  OutputPipe(std::string path, Fd fd);
  Result<std::int64_t> copy_to(int file, std::int64_t offset);

  std::string path_;
  Fd fd_;
  std::int64_t capacity_ = 0;
  std::string copied_;  // out of the pipe and not in the file: only where splice does not work
};

// Tells once when a rank has written into its pipe. Owned beside the pipe, on the agent's thread;
// never reads, never closes the pipe.
class PipeWatch {
 public:
  PipeWatch(boost::asio::io_context& io, int pipe, std::function<void()> on_bytes);
  PipeWatch(PipeWatch&&) = default;
  PipeWatch& operator=(PipeWatch&&) = default;
  ~PipeWatch();

  // The next time there is something, looking after `pause`; nothing when it is told already.
  void report_next(std::chrono::milliseconds pause);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// mpirun's own words are the output of this "rank".
inline constexpr RankId mpirun_rank{-1};

// And below it is that of commands behind the door (RemoteOutput), by their numbers, from 1 on.
inline RankId output_of_command(std::int64_t number) {
  return RankId{mpirun_rank.value - number};
}
inline bool is_of_command(RankId rank) {
  return rank < mpirun_rank;
}
inline std::int64_t number_of(RankId rank) {
  return mpirun_rank.value - rank.value;
}

// One frame's payload: large enough that a frame costs little, small enough to take turns.
inline constexpr std::int64_t output_chunk_bytes = 1 << 20;
// Bytes on the way per rank: the product of 1 GB/s and 8 ms, a slow controller's time to answer.
inline constexpr std::int64_t output_window_bytes = 8 << 20;
// The same for a command: all of a job's go to one node, by the controller's memory.
inline constexpr std::int64_t command_window_bytes = 256 << 10;
// A rank that is this far ahead of the controller waits in its write until some has been taken.
inline constexpr std::int64_t spool_limit_bytes = 1ll << 30;

class Spool {
 public:
  // Opens or creates the rank's file below `directory`, and its pipe where there is one.
  static Result<Spool> open(const std::string& directory, RankId rank);
  // The ranks that have a file there.
  static std::vector<RankId> ranks_in(const std::string& directory);

  RankId rank() const { return rank_; }
  const std::string& path() const { return path_; }
  std::int64_t acked() const { return acked_; }
  std::int64_t sent() const { return sent_; }
  std::int64_t size() const { return size_; }
  bool is_full() const { return size_ - acked_ >= spool_limit_bytes; }
  bool has_sent_everything() const { return sent_ >= size_ && end() == size_; }

  Status make_pipe();
  void remove_pipe();
  void remove();  // its files too
  const std::optional<OutputPipe>& pipe() const { return pipe_; }
  // Where the output ends when the rank writes no more: the size once the pipe is empty.
  std::int64_t end() const { return size_ + (pipe_ ? pipe_->waiting_bytes() : 0); }
  // Moves what the pipe holds into the file, in one go; how much that was.
  Result<std::int64_t> take_in();
  // Moves until the file is that large or the pipe empty, however full the spool is.
  Status take_in_to(std::int64_t size);
  // Where the disk has no room: what the pipe holds is sent from there, and taken out of it when it
  // is acknowledged. False when there is nothing more to see for now.
  bool look_ahead();

  // The next bytes to send, empty when there are none or the window is full; counts them as sent.
  std::string take_chunk();
  // Everything before `offset` is safe: never asked for again, its space is freed.
  void acknowledge(std::int64_t offset);
  // Another connection: what was on the way is sent again.
  void rewind() { sent_ = acked_; }
  // The last lines as valid UTF-8, oldest first.
  std::vector<std::string> last_lines(std::size_t count) const;

 private:
  Spool(RankId rank, std::string path, Fd file, Fd ack_file);
  void save_acked() const;
  void pass(std::int64_t bytes);

  RankId rank_;
  std::string path_;
  Fd file_;
  Fd ack_file_;
  std::optional<OutputPipe> pipe_;
  std::int64_t acked_ = 0;
  std::int64_t sent_ = 0;
  std::int64_t size_ = 0;
  std::int64_t freed_ = 0;
  std::string ahead_;   // behind `size_`: still in the pipe
  std::string passed_;  // the last that was acknowledged and never came into the file
};

}  // namespace muster
