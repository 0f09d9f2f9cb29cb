#include "runtime/checkpoint/shard.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/crc32c.h"

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

namespace muster {

namespace {

using namespace fields;

void check_metadata(const Json& json, const ShardIdentity& identity, const ElementRange& range) {
  require(text(json, "format") == "muster-shard", "format: expected muster-shard");
  require(text(json, "version") == "1", "version: this reader knows only 1");
  require(text(json, "run_id") == identity.run_id, "run_id: is not that of the manifest");
  require(whole_number(json, "step") == identity.step, "step: is not that of the manifest");
  require(whole_number(json, "gen") == identity.generation, "gen: is not that of the manifest");
  require(ElementRange{whole_number(json, "lo"), whole_number(json, "hi")} == range,
          "lo, hi: are not those of the manifest");
  require(read_hex64(json, "layout") == identity.layout, "layout: is not that of the manifest");
}

void check_planes(const Json& json, const ElementRange& range) {
  const std::uint64_t plane_bytes = range.size() * sizeof(float);
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    const std::string name = flat_plane_names[plane];
    const Json& tensor = member(json, flat_plane_names[plane]);
    require(text(tensor, "dtype") == "F32", name + ": expected F32");
    require(list(tensor, "shape") == Json::array({range.size()}), name + ": has another shape");
    require(list(tensor, "data_offsets") ==
                Json::array({plane * plane_bytes, (plane + 1) * plane_bytes}),
            name + ": is elsewhere");
  }
}

// Values are looked at twice, for vitals and for the checksum, while the second cache has them.
constexpr std::size_t look_bytes = 256 << 10;

std::span<const char> bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

std::string safetensors_header(std::string json, std::size_t alignment) {
  std::uint64_t length = 0;
  const std::size_t data_at = (sizeof length + json.size() + alignment - 1) / alignment * alignment;
  length = data_at - sizeof length;
  json.resize(length, ' ');
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + json;
}

std::string shard_header(const ShardIdentity& identity, const ElementRange& range) {
  Json header;
  header["__metadata__"] = {{"format", "muster-shard"},
                            {"version", "1"},
                            {"run_id", identity.run_id},
                            {"step", std::to_string(identity.step)},
                            {"gen", std::to_string(identity.generation)},
                            {"lo", std::to_string(range.lo)},
                            {"hi", std::to_string(range.hi)},
                            {"layout", hex64(identity.layout)}};
  const std::uint64_t plane_bytes = range.size() * sizeof(float);
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    header[flat_plane_names[plane]] = {
        {"dtype", "F32"},
        {"shape", {range.size()}},
        {"data_offsets", {plane * plane_bytes, (plane + 1) * plane_bytes}}};
  }
  return safetensors_header(header.dump(), shard_data_alignment_bytes);
}

Checked<NoValue> check_shard_header(std::string_view bytes, const ShardIdentity& identity,
                                    const ElementRange& range) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) return CheckpointFault{"the header is missing", true};
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length != bytes.size() - sizeof length) {
    return CheckpointFault{"the header does not end where the manifest says", true};
  }
  try {
    const Json json = parse_json(bytes.substr(sizeof length));
    check_metadata(member(json, "__metadata__"), identity, range);
    check_planes(json, range);
    return NoValue{};
  } catch (const FieldError& error) {
    return CheckpointFault{std::string("header: ") + error.what(), true};
  } catch (const Json::exception& error) {
    return CheckpointFault{std::string("header: not valid JSON: ") + error.what(), true};
  }
}

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

void ShardWrite::look_at(const Piece& piece, std::array<TensorStatsSum, flat_planes>& vitals) {
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
  std::array<TensorStatsSum, flat_planes> vitals;
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
