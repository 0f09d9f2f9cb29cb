#include "runtime/train/save/shard_transfer.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/communicator/communicator.h"
#include "runtime/protocol/crc32c.h"

namespace muster {
namespace {

// One shard on its way. After the first fault chunks are still broadcast, as all ranks take part in
// every broadcast, but no longer read or written.
class ShardFetch {
 public:
  ShardFetch(const std::string& path, const ShardRecord& shard, Communicator& ranks)
      : name_(path + "/" + shard.file), shard_(shard), ranks_(ranks) {
    if (ranks.rank() == shard.rank) {
      open(CheckpointFile::open_for_reading(name_));
    } else if (ranks.rank() == 0) {
      open(CheckpointFile::create(part_name(), shard.bytes));
    }
  }

  Checked<NoValue> run() {
    for (std::size_t chunk = 0; chunk < shard_.chunk_crc32c.size(); ++chunk) pass(chunk);
    if (ranks_.rank() == 0 && outcome_.ok()) outcome_ = finish();
    Checked<std::string> mine = std::string();
    if (!outcome_) mine = outcome_.fault();
    const auto votes = gather_checked(ranks_, mine);
    if (!votes) return votes.fault();
    return NoValue{};
  }

 private:
  std::string part_name() const { return name_ + ".part"; }

  void open(Checked<CheckpointFile> file) {
    if (file) {
      file_ = std::move(file.value());
    } else {
      outcome_ = file.fault();
    }
  }

  void pass(std::size_t chunk) {
    const std::uint64_t at = chunk * shard_.chunk_bytes;
    std::string bytes(std::min(shard_.chunk_bytes, shard_.bytes - at), '\0');
    const bool works = file_.has_value() && outcome_.ok();
    if (works && ranks_.rank() == shard_.rank) {
      outcome_ = file_->read_at(at, bytes.data(), bytes.size());
    }
    ranks_.broadcast(bytes, shard_.rank);
    if (!works || ranks_.rank() != 0) return;
    if (crc32c(bytes) != shard_.chunk_crc32c[chunk]) {
      outcome_ =
          CheckpointFault{name_ + ": arrived damaged from rank " + std::to_string(shard_.rank)};
    } else {
      outcome_ = file_->write_at(at, bytes.data(), bytes.size());
    }
  }

  Checked<NoValue> finish() {
    if (auto synced = file_->sync_and_close(); !synced) return synced;
    std::error_code code;
    std::filesystem::rename(part_name(), name_, code);
    if (code) return CheckpointFault{part_name() + ": cannot be renamed: " + code.message()};
    return NoValue{};
  }

  std::string name_;
  const ShardRecord& shard_;
  Communicator& ranks_;
  std::optional<CheckpointFile> file_;
  Checked<NoValue> outcome_ = NoValue{};
};

}  // namespace

Checked<std::size_t> fetch_missing_shards(const std::string& path, const Manifest& manifest,
                                          Communicator& ranks) {
  std::string list;
  if (ranks.rank() == 0) {
    for (const std::string& file : missing_shards(path, manifest)) list += file + "\n";
  }
  list = from_rank_0(ranks, list);
  std::size_t fetched = 0;
  for (const ShardRecord& shard : manifest.shards) {
    if (list.find(shard.file + "\n") == std::string::npos || shard.rank == 0) continue;
    if (auto moved = ShardFetch(path, shard, ranks).run(); !moved) return moved.fault();
    ++fetched;
  }
  return fetched;
}

}  // namespace muster
