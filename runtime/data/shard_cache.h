// Copies of a dataset's files on this node, for runs whose files lie far away.
//
// A background thread copies shard after shard into a directory, checks each against its checksums,
// renames it, and has it read from there. Ranks and jobs of one node share the directory:
//
//   KEY.tokens  a whole copy; a process that reads it holds a shared flock on it
//   KEY.lock    held by the one who makes or checks that copy; its time tells when it was used last
//   KEY.tmp     a copy in the making, at its full size from the beginning
//   .room.lock  held while room is made and taken, so that the limit holds over all processes
//
// with KEY from the shard's content. A copy that is there already is verified before it is used,
// once per run and node. When a copy does not fit under the limit or on the disk, those that nobody
// reads are removed, the one used longest ago first; what does not fit under the limit then stays
// where it is. Whatever goes wrong is said once, and the tokens come from the files themselves.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/data/shard_tokens.h"
#include "runtime/data/token_dataset.h"

namespace muster {

struct ShardCacheSettings {
  std::string directory;
  std::uint64_t limit_bytes = 0;  // of all copies in the directory; 0: what the disk holds
  std::size_t first_shard = 0;    // ranks begin in different places, to share the work
};

class ShardCache {
 public:
  using Warn = std::function<void(const std::string&)>;

  // `tokens` outlives this object and has the shards of `dataset`, whose checksums are known.
  // `warn` is called from the background thread, at most once.
  ShardCache(const TokenDataset& dataset, ShardCacheSettings settings, ShardTokens& tokens,
             Warn warn);

  // Waits until every shard is either read from its copy or stays where it is.
  void wait_until_settled();

  // Whether all that is left is being copied by other processes.
  bool waits_for_others() const { return waits_; }

  // Shards that are read from a copy.
  std::size_t copies() const { return copies_; }

 private:
  enum class Outcome { settled, busy };  // busy: another process makes or checks this copy

  bool is_ended() const { return ended_.stop_requested(); }
  void serve();
  Outcome settle(std::size_t shard);
  bool adopt(std::size_t shard, int lock);
  bool fill(std::size_t shard, int lock);
  Checked<std::optional<CheckpointFile>> reserve(std::size_t shard);
  Checked<NoValue> make_room(std::uint64_t bytes, bool& fits);
  Checked<NoValue> copy(const DatasetShard& shard, CheckpointFile& to);
  Checked<NoValue> verify(std::size_t shard);
  std::string path_of(std::size_t shard, const char* kind) const {
    return settings_.directory + "/" + keys_[shard] + kind;
  }
  void warn_once(const std::string& trouble) {
    if (!std::exchange(warned_, true)) warn_("--data-cache: " + trouble);
  }

  const TokenDataset dataset_;
  const ShardCacheSettings settings_;
  ShardTokens& tokens_;
  Warn warn_;
  const std::uint64_t started_ns_;
  std::vector<std::string> keys_;
  bool fills_ = true;  // until a copy could not be written
  bool warned_ = false;
  std::atomic<std::size_t> copies_ = 0;
  std::atomic<bool> waits_ = false;
  std::stop_token ended_;  // of the thread
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_settled_ = false;
  std::jthread thread_;
};

}  // namespace muster
