// The output of one rank on its way to the controller: a file that the rank itself appends to, read
// from where the controller has not got it yet. Outlives the agent; acknowledged bytes give their
// disk space back. Owned by an attempt, on the agent's thread.
//
//   0 ──── acked ──── sent ──── size        acked is kept in `<file>.acked`
//
// A program can cut the file: a shell's `> /dev/stderr` opens it anew and empties it. Offsets go on
// behind what was sent, so that what it writes next arrives; unsent bytes before the cut are gone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/os/fd.h"
#include "scheduler/model/ids.h"
#include "scheduler/model/result.h"

namespace muster {

// mpirun's own words are the output of this "rank".
inline constexpr RankId mpirun_rank{-1};

// One frame's payload: large enough that a frame costs little, small enough to take turns.
inline constexpr std::int64_t output_chunk_bytes = 1 << 20;
// Bytes on the way per rank: the product of 1 GB/s and 8 ms, a slow controller's time to answer.
inline constexpr std::int64_t output_window_bytes = 8 << 20;
// A rank that is this far ahead of the controller is stopped until half of it has been taken.
inline constexpr std::int64_t spool_limit_bytes = 1ll << 30;

class Spool {
 public:
  // Opens or creates the rank's file below `directory`.
  static Result<Spool> open(const std::string& directory, RankId rank);
  static std::string file_name(RankId rank);

  RankId rank() const { return rank_; }
  const std::string& path() const { return path_; }
  std::int64_t acked() const { return acked_; }
  std::int64_t sent() const { return sent_; }
  std::int64_t size() const;
  std::int64_t backlog() const { return size() - acked_; }
  bool has_sent_everything() const { return sent_ >= size(); }

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

  RankId rank_;
  std::string path_;
  Fd file_;
  Fd ack_file_;
  std::int64_t acked_ = 0;
  std::int64_t sent_ = 0;
  void notice_cut();
  void save() const;
  std::int64_t file_bytes() const;

  std::int64_t base_ = 0;   // offset of the file's first byte: above 0 once it was cut
  std::int64_t seen_ = 0;   // size of the file at the last look
  std::int64_t freed_ = 0;  // in the file
};

}  // namespace muster
