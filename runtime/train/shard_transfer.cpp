#include "runtime/train/shard_transfer.h"

#include <algorithm>
#include <optional>
#include <set>

#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/durable_file.h"
#include "runtime/train/rank_vote.h"

namespace muster {
namespace {

constexpr std::uint64_t piece_bytes = 8 << 20;

// All ranks take part in every broadcast, even when the sender cannot read or rank 0 cannot write:
// the size of the file on rank 0 then stays wrong, and the commit refuses it.
void send_to_rank_0(const std::string& path, const ShardRecord& shard, Communicator& ranks) {
  const std::string file = path + "/" + shard.file;
  std::optional<CheckpointFile> source;
  std::optional<CheckpointFile> target;
  if (ranks.rank() == shard.rank) {
    if (auto opened = CheckpointFile::open_for_reading(file)) source = std::move(opened.value());
  } else if (ranks.rank() == 0) {
    if (auto created = CheckpointFile::create(file, 0)) target = std::move(created.value());
  }
  std::string piece;
  for (std::uint64_t at = 0; at < shard.bytes; at += piece.size()) {
    piece.assign(std::min(piece_bytes, shard.bytes - at), '\0');
    bool good = !source || source->read_at(at, piece.data(), piece.size()).ok();
    if (ranks.rank() == shard.rank) good = good && source.has_value();
    ranks.broadcast(piece, shard.rank);
    const std::string verdict = good ? "+" : "-";
    good = ranks.gather_texts(verdict)[shard.rank] == "+";
    if (target && (!good || !target->write_at(at, piece.data(), piece.size()))) target.reset();
  }
  if (target) (void)target->sync_and_close();
}

}  // namespace

bool fetch_missing_shards(const std::string& path, const Manifest& manifest, Communicator& ranks) {
  std::string list;
  if (ranks.rank() == 0) {
    for (const std::string& file : missing_shards(path, manifest)) list += file + "\n";
  }
  list = from_rank_0(ranks, list);
  for (const ShardRecord& shard : manifest.shards) {
    if (list.find(shard.file + "\n") != std::string::npos && shard.rank != 0) {
      send_to_rank_0(path, shard, ranks);
    }
  }
  return !list.empty();
}

}  // namespace muster
