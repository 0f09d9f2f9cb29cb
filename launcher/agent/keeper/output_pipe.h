// What a rank has as stdout and stderr: a FIFO beside its spool, so that a program that opens
// /dev/stderr anew empties nothing, and a rank that is too fast waits by itself. Never at its end:
// the holder is a reader and a writer. Its bytes live as long as one process holds it. Moved by one
// process at a time, the agent or, once that is dead, the holder of its lock.
//
// splice(2) takes out of the pipe what it has put into the file's cache and nothing else, both
// before a SIGKILL can act. So a holder that is killed at any moment neither loses nor repeats a
// byte: the file's size says where the next one goes. Where a file system cannot splice, bytes are
// copied, and a SIGKILL in that moment costs up to `copy_bytes`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

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

}  // namespace muster
