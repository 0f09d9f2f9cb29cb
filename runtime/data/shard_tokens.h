// The tokens of a dataset's files, mapped, as one line.
//
// A shard is read from its own file until a copy on this node is put in its place
// (shard_cache.h); a copy that cannot be read is given up again. copy() and expect() may run beside
// use_copy(). Mappings stay until the end, so that no reader loses what it reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/data/token_dataset.h"
#include "runtime/data/token_source.h"
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

}  // namespace muster
