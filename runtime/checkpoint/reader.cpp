#include "runtime/checkpoint/reader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/protocol/crc32c.h"

namespace muster {

CheckpointReader::CheckpointReader(std::string path, const Manifest& manifest)
    : path_(std::move(path)), manifest_(manifest), header_checked_(manifest.shards.size(), false) {}

Checked<NoValue> CheckpointReader::load_chunk(std::size_t shard_index, std::uint64_t chunk) {
  if (chunk_shard_ == shard_index && chunk_index_ == chunk) return NoValue{};
  const ShardRecord& shard = manifest_.shards[shard_index];
  const std::string path = path_ + "/" + shard.file;
  auto file = CheckpointFile::open_for_reading(path);
  if (!file) return file.fault();
  const std::uint64_t begin = chunk * shard.chunk_bytes;
  const std::uint64_t end = std::min(shard.bytes, begin + shard.chunk_bytes);
  chunk_shard_ = ~std::size_t{0};
  chunk_.resize(end - begin);
  if (auto got = file.value().read_at(begin, chunk_.data(), chunk_.size()); !got)
    return got.fault();
  if (crc32c_extend(0, chunk_.data(), chunk_.size()) != shard.chunk_crc32c[chunk]) {
    return CheckpointFault{path + ": bytes " + std::to_string(begin) + " to " +
                               std::to_string(end) + " do not match their checksum",
                           true};
  }
  chunk_shard_ = shard_index;
  chunk_index_ = chunk;
  return NoValue{};
}

Checked<NoValue> CheckpointReader::read_from_shard(std::size_t shard_index,
                                                   std::uint64_t offset_bytes,
                                                   std::span<float> out) {
  if (!header_checked_[shard_index]) {
    if (auto loaded = load_chunk(shard_index, 0); !loaded) return loaded.fault();
    header_checked_[shard_index] = true;
  }
  const std::uint64_t chunk_bytes = manifest_.shards[shard_index].chunk_bytes;
  char* target = reinterpret_cast<char*>(out.data());
  std::uint64_t left = out.size_bytes();
  while (left > 0) {
    const std::uint64_t chunk = offset_bytes / chunk_bytes;
    if (auto loaded = load_chunk(shard_index, chunk); !loaded) return loaded.fault();
    const std::uint64_t inside = offset_bytes - chunk * chunk_bytes;
    const std::uint64_t piece = std::min<std::uint64_t>(left, chunk_.size() - inside);
    std::memcpy(target, chunk_.data() + inside, piece);
    target += piece;
    offset_bytes += piece;
    left -= piece;
  }
  return NoValue{};
}

Checked<NoValue> CheckpointReader::read(std::size_t plane, std::uint64_t first,
                                        std::span<float> out) {
  const std::uint64_t last = first + out.size();
  if (plane >= flat_planes || last > manifest_.flat.numel) {
    return CheckpointFault{path_ + ": values outside the flat space requested"};
  }
  for (std::size_t index = 0; index < manifest_.shards.size(); ++index) {
    const ShardRecord& shard = manifest_.shards[index];
    const std::uint64_t lo = std::max(first, shard.range.lo);
    const std::uint64_t hi = std::min(last, shard.range.hi);
    if (lo >= hi) continue;
    const std::uint64_t element = plane * shard.range.size() + (lo - shard.range.lo);
    const std::uint64_t offset = shard.data_offset + element * sizeof(float);
    auto got = read_from_shard(index, offset, out.subspan(lo - first, hi - lo));
    if (!got) return got.fault();
  }
  return NoValue{};
}

std::string normal_path(const std::string& path) {
  std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  return normal.string();
}

}  // namespace muster
