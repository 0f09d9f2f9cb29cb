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
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/data/sampler.h"
#include "runtime/data/token_dataset.h"
#include "runtime/protocol/descriptor.h"

namespace muster {

// A file of tokens mapped into memory, read-only.
//
// A page that cannot be read would end the process with SIGBUS, as after an error of the disk or
// when another process cut the file short; so pages are asked for first (MADV_POPULATE_READ, Linux
// 5.14), which says so instead. Any thread.
class MappedFile {
 public:
  // A fault when the file cannot be mapped or does not have `bytes` bytes.
  static Checked<MappedFile> open(const std::string& path, std::uint64_t bytes);

  // Takes over an open descriptor: what is locked through it stays locked while this lives.
  static Checked<MappedFile> take(Descriptor fd, const std::string& path, std::uint64_t bytes);

  const std::string& path() const { return path_; }
  const char* data() const { return static_cast<const char*>(memory_.get()); }

  // Begins to read these bytes in the background.
  void will_need(std::uint64_t offset, std::uint64_t bytes) const;

  // Reads these bytes into memory; false when they cannot be read.
  bool load(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  MappedFile(Descriptor fd, std::string path, Mapping memory)
      : fd_(std::move(fd)), path_(std::move(path)), memory_(std::move(memory)) {}

  Descriptor fd_;
  std::string path_;
  Mapping memory_;
};

// The tokens of a dataset's files, mapped, as one line.
//
// A shard is read from its own file until a copy on this node is put in its place; a copy that
// cannot be read is given up again. copy() and expect() may run beside use_copy(). Mappings stay
// until the end, so that no reader loses what it reads.
class ShardTokens final : public TokenSource {
 public:
  using Warn = std::function<void(const std::string&)>;

  // Tokens of `vocabulary` and above are refused when they are read. A fault when a file cannot be
  // mapped.
  static Checked<std::unique_ptr<ShardTokens>> open(const TokenDataset& dataset,
                                                    std::uint64_t vocabulary, Warn warn);

  std::uint64_t size() const override { return begins_.back(); }
  void expect(std::uint64_t at, std::uint64_t count) const override;
  void copy(std::uint64_t at, std::span<std::uint32_t> tokens) const override;

  // From now on reads shard number `shard` from `copy`, a file of the same bytes.
  void use_copy(std::size_t shard, MappedFile copy);

  // The file that shard number `shard` is read from.
  const std::string& path_of(std::size_t shard) const { return current(shard).path(); }

 private:
  struct Shard {
    TokenShardLayout layout;
    MappedFile source;
    std::unique_ptr<MappedFile> copy;
    mutable std::atomic<const MappedFile*> current = nullptr;
    Shard(const TokenShardLayout& its_layout, MappedFile its_source)
        : layout(its_layout), source(std::move(its_source)), current(&source) {}
  };
  // A stretch inside one shard.
  struct Part {
    std::size_t shard = 0;
    std::uint64_t offset = 0;  // bytes in the file
    std::uint64_t tokens = 0;
  };

  ShardTokens(std::uint64_t vocabulary, Warn warn);
  const MappedFile& current(std::size_t shard) const {
    return *shards_[shard]->current.load(std::memory_order_acquire);
  }
  Part part_at(std::uint64_t at, std::uint64_t count) const;
  const MappedFile& loaded(const Part& part) const;
  void copy_part(const Part& part, std::span<std::uint32_t> tokens) const;

  std::uint64_t vocabulary_;
  Warn warn_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::uint64_t> begins_{0};  // token at which each shard begins, and the end
};

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
