#include "runtime/checkpoint/shard.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/checkpoint/shard.h"
#include "runtime/checkpoint/shard_write.h"

static_assert(std::endian::native == std::endian::little, "the length is little-endian");

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

}  // namespace

Checked<ShardRecord> write_shard(const std::string& directory, const ShardIdentity& identity,
                                 const ShardWriter& writer, const ElementRange& range,
                                 const PlaneSpans& planes, WriteChoice& choice) {
  auto write = ShardWrite::begin(directory, identity, writer, range, planes, choice);
  if (!write) return write.fault();
  return write.value().finish();
}

Checked<ShardRecord> write_shard(const std::string& directory, const ShardIdentity& identity,
                                 const ShardWriter& writer, const ElementRange& range,
                                 const PlaneSpans& planes) {
  WriteChoice choice{WriteWay::buffered, ""};
  return write_shard(directory, identity, writer, range, planes, choice);
}

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

}  // namespace muster
