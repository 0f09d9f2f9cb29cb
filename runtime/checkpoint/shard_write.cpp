#include "runtime/checkpoint/shard_write.h"

#include <algorithm>
#include <bit>

#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/crc32c.h"

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

namespace muster {
namespace {

// Values are looked at twice, for vitals and for the checksum, while the second cache has them.
constexpr std::size_t look_bytes = 256 << 10;

std::span<const char> bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

ShardWrite::ShardWrite(FileWrite file, std::string header, ShardRecord record)
    : file_(std::move(file)), header_(header.begin(), header.end()), record_(std::move(record)) {}

Checked<ShardWrite> ShardWrite::begin(const std::string& directory, const ShardIdentity& identity,
                                      const ShardWriter& writer, const ElementRange& range,
                                      const PlaneSpans& planes, WriteChoice& choice) {
  ShardRecord record;
  record.file = checkpoint_shard_name(writer.rank, writer.ranks);
  record.range = range;
  record.host = writer.host;
  record.rank = writer.rank;
  const std::string header = shard_header(identity, range);
  record.data_offset = header.size();
  record.bytes = header.size() + range.size() * flat_planes * sizeof(float);
  auto file = FileWrite::begin(directory + "/" + record.file, record.bytes, choice);
  if (!file) return file.fault();
  ShardWrite write(std::move(file.value()), header, std::move(record));
  write.cut(planes);
  return write;
}

// The header, then the planes, cut where a chunk of the file ends.
void ShardWrite::cut(const PlaneSpans& planes) {
  pieces_.push_back({0, header_});
  std::uint64_t offset = header_.size();
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    std::uint64_t first = record_.range.lo;
    std::span<const char> left = bytes_of(planes[plane]);
    while (!left.empty()) {
      const std::uint64_t room = shard_chunk_bytes - offset % shard_chunk_bytes;
      const auto piece = left.first(std::min<std::uint64_t>(room, left.size()));
      pieces_.push_back({offset, piece, plane, first});
      left = left.subspan(piece.size());
      offset += piece.size();
      first += piece.size() / sizeof(float);
    }
  }
}

void ShardWrite::filled(std::uint64_t bytes) {
  for (; put_ < pieces_.size(); ++put_) {
    const Piece& piece = pieces_[put_];
    if (piece.offset + piece.bytes.size() > record_.data_offset + bytes) break;
    file_.put(piece.offset, piece.bytes);
  }
  file_.tend();
}

void ShardWrite::look_at(const Piece& piece, std::array<VitalsSum, flat_planes>& vitals) {
  std::uint32_t& crc = record_.chunk_crc32c[piece.offset / shard_chunk_bytes];
  std::uint64_t first = piece.first;
  for (std::size_t at = 0; at < piece.bytes.size(); at += look_bytes) {
    const auto part = piece.bytes.subspan(at, std::min(look_bytes, piece.bytes.size() - at));
    crc = crc32c_extend(crc, part.data(), part.size());
    if (piece.plane == flat_planes) continue;
    const std::span values(reinterpret_cast<const float*>(part.data()),
                           part.size() / sizeof(float));
    vitals[piece.plane].add(piece.plane, first, values);
    first += values.size();
  }
}

void ShardWrite::sum_up() {
  record_.chunk_crc32c.assign((record_.bytes + shard_chunk_bytes - 1) / shard_chunk_bytes, 0);
  std::array<VitalsSum, flat_planes> vitals;
  for (const Piece& piece : pieces_) {
    look_at(piece, vitals);
    file_.tend();
  }
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    record_.vitals[plane] = vitals[plane].vitals();
  }
  for (std::size_t chunk = 0; chunk < record_.chunk_crc32c.size(); ++chunk) {
    const std::uint64_t left = record_.bytes - chunk * shard_chunk_bytes;
    record_.file_crc32c = crc32c_combine(record_.file_crc32c, record_.chunk_crc32c[chunk],
                                         std::min(shard_chunk_bytes, left));
  }
}

Checked<ShardRecord> ShardWrite::finish() {
  filled(record_.bytes - record_.data_offset);
  if (auto chosen = file_.choose_way(); !chosen) return chosen.fault();
  sum_up();
  record_.engine = file_.description();
  if (auto finished = file_.finish(); !finished) return finished.fault();
  return record_;
}

}  // namespace muster
