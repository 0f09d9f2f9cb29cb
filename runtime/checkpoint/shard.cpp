#include "runtime/checkpoint/shard.h"

#include <algorithm>
#include <bit>

#include "runtime/checkpoint/durable_file.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/crc32c.h"

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

namespace muster {
namespace {

// Writes pieces one after the other and keeps the checksum of each chunk and of the file.
class ChunkedWriter {
 public:
  explicit ChunkedWriter(CheckpointFile file) : file_(std::move(file)) {}

  Checked<NoValue> append(const void* data, std::size_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const std::uint64_t room = shard_chunk_bytes - offset_ % shard_chunk_bytes;
      const std::size_t piece = std::min<std::uint64_t>(room, bytes);
      if (room == shard_chunk_bytes) chunk_crcs_.push_back(0);
      chunk_crcs_.back() = crc32c_extend(chunk_crcs_.back(), at, piece);
      file_crc_ = crc32c_extend(file_crc_, at, piece);
      if (auto put = file_.write_at(offset_, at, piece); !put) return put.fault();
      at += piece;
      bytes -= piece;
      offset_ += piece;
    }
    return NoValue{};
  }

  Checked<NoValue> finish(ShardRecord& record) {
    record.bytes = offset_;
    record.chunk_crc32c = chunk_crcs_;
    record.file_crc32c = file_crc_;
    return file_.sync_and_close();
  }

 private:
  CheckpointFile file_;
  std::uint64_t offset_ = 0;
  std::vector<std::uint32_t> chunk_crcs_;
  std::uint32_t file_crc_ = 0;
};

}  // namespace

Checked<ShardRecord> write_shard(const std::string& directory, const ShardIdentity& identity,
                                 const ShardWriter& writer, const ElementRange& range,
                                 const PlaneSpans& planes) {
  ShardRecord record;
  record.file = checkpoint_shard_name(writer.rank, writer.ranks);
  record.range = range;
  record.host = writer.host;
  record.rank = writer.rank;
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    record.vitals[plane] = plane_vitals(plane, range.lo, planes[plane]);
  }
  const std::string header = shard_header(identity, range);
  record.data_offset = header.size();
  const std::uint64_t bytes = header.size() + range.size() * flat_planes * sizeof(float);
  auto file = CheckpointFile::create(directory + "/" + record.file, bytes);
  if (!file) return file.fault();
  ChunkedWriter output(std::move(file.value()));
  if (auto put = output.append(header.data(), header.size()); !put) return put.fault();
  for (const std::span<const float> plane : planes) {
    if (auto put = output.append(plane.data(), plane.size_bytes()); !put) return put.fault();
  }
  if (auto finished = output.finish(record); !finished) return finished.fault();
  return record;
}

}  // namespace muster
