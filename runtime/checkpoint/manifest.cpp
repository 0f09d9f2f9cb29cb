#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "scheduler/text/number.h"

namespace muster {
namespace {

using namespace fields;

Json stats_json(const TensorStats& vitals) {
  return {{"nonfinite", vitals.nonfinite},
          {"absmax", hex32(std::bit_cast<std::uint32_t>(vitals.absmax))},
          {"l2", hex64(std::bit_cast<std::uint64_t>(vitals.l2))},
          {"hash", hex64(vitals.hash)}};
}

Json shard_json(const ShardRecord& shard) {
  Json vitals = Json::object();
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    vitals[flat_plane_names[plane]] = stats_json(shard.vitals[plane]);
  }
  return {{"file", shard.file},
          {"bytes", shard.bytes},
          {"data_off", shard.data_offset},
          {"lo", shard.range.lo},
          {"hi", shard.range.hi},
          {"writer", {{"host", shard.host}, {"rank", shard.rank}, {"engine", shard.engine}}},
          {"chunk", shard.chunk_bytes},
          {"chunk_crc32c", base64_of_u32(shard.chunk_crc32c)},
          {"file_crc32c", hex32(shard.file_crc32c)},
          {"vitals", std::move(vitals)}};
}

Json flat_json(const FlatSpace& flat) {
  Json planes = Json::array();
  for (const char* name : flat_plane_names) {
    planes.push_back(Json{{"name", name}, {"dtype", "F32"}});
  }
  Json params = Json::array();
  for (const FlatParameter& param : flat.params) {
    params.push_back(Json{{"name", param.name},
                          {"off", param.offset},
                          {"shape", param.shape},
                          {"decay", param.decay}});
  }
  return {{"numel", flat.numel},
          {"align", flat.align},
          {"layout", hex64(layout_hash(flat))},
          {"planes", std::move(planes)},
          {"params", std::move(params)}};
}

Json train_json(const TrainState& train) {
  const SamplerState& sampler = train.sampler;
  return {{"seed", std::to_string(train.seed)},
          {"V", train.micro_batches},
          {"micro_batch", train.micro_batch},
          {"leaves", train.leaves},
          {"sampler",
           {{"kind", sampler.kind},
            {"epoch", sampler.epoch},
            {"cursor", std::to_string(sampler.cursor)},
            {"data_bytes", sampler.data_bytes},
            {"data_crc32c", hex32(sampler.data_crc32c)}}},
          {"lr_step", train.lr_step},
          {"loss_ema", hex64(std::bit_cast<std::uint64_t>(train.loss_ema))},
          {"grad_norm_med", nullptr},
          {"scaler", nullptr},
          {"skipped_in_a_row", train.skipped_in_a_row},
          {"best_loss", hex64(std::bit_cast<std::uint64_t>(train.best_loss))},
          {"best_step", train.best_step},
          {"far_above_in_a_row", train.far_above_in_a_row},
          {"config", train.config}};
}

Json environment_json(const Manifest& manifest) {
  Json nodes = Json::array();
  for (const std::string& host : manifest.nodes) {
    nodes.push_back(Json{{"host", host}, {"gpu_uuids", Json::array()}, {"health_seq", nullptr}});
  }
  return {{"world", manifest.world}, {"nccl", nullptr}, {"driver", nullptr}, {"nodes", nodes}};
}

using namespace fields;

TensorStats stats_of(const Json& json) {
  TensorStats vitals;
  vitals.nonfinite = whole_number(json, "nonfinite");
  vitals.absmax = std::bit_cast<float>(read_hex32(json, "absmax"));
  vitals.l2 = std::bit_cast<double>(read_hex64(json, "l2"));
  vitals.hash = read_hex64(json, "hash");
  return vitals;
}

void check_shard(const ShardRecord& shard) {
  require_plain_name(shard.file);
  require(shard.range.lo <= shard.range.hi && shard.range.hi <= flat_numel_limit,
          shard.file + ": lo and hi are not a range");
  require(shard.chunk_bytes >= 4096 && shard.chunk_bytes <= (1ull << 30) &&
              shard.chunk_bytes % 4096 == 0,
          shard.file + ": chunk is not a multiple of 4096 B up to 1 GiB");
  require(shard.data_offset % shard_data_alignment_bytes == 0 && shard.data_offset <= (1ull << 30),
          shard.file + ": data_off is not a multiple of 4096 below 1 GiB");
  require(shard.bytes == shard.data_offset + shard.range.size() * flat_planes * sizeof(float),
          shard.file + ": bytes does not match lo, hi and data_off");
  const std::uint64_t chunks = (shard.bytes + shard.chunk_bytes - 1) / shard.chunk_bytes;
  require(shard.chunk_crc32c.size() == chunks, shard.file + ": wrong number of chunk checksums");
}

ShardRecord shard_of(const Json& json) {
  ShardRecord shard;
  shard.file = text(json, "file");
  shard.bytes = whole_number(json, "bytes");
  shard.data_offset = whole_number(json, "data_off");
  shard.range = {whole_number(json, "lo"), whole_number(json, "hi")};
  const Json& writer = member(json, "writer");
  shard.host = text(writer, "host");
  shard.rank = whole_number(writer, "rank");
  if (writer.contains("engine")) shard.engine = text(writer, "engine");
  shard.chunk_bytes = whole_number(json, "chunk");
  auto checksums = u32_of_base64(text(json, "chunk_crc32c"));
  require(checksums.has_value(), "chunk_crc32c: not base64 of 32-bit numbers");
  shard.chunk_crc32c = std::move(*checksums);
  shard.file_crc32c = read_hex32(json, "file_crc32c");
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    shard.vitals[plane] = stats_of(member(member(json, "vitals"), flat_plane_names[plane]));
  }
  check_shard(shard);
  return shard;
}

FlatParameter parameter_of(const Json& json) {
  FlatParameter param;
  param.name = text(json, "name");
  param.offset = whole_number(json, "off");
  param.decay = truth(json, "decay");
  std::uint64_t size = 1;
  for (const Json& extent : list(json, "shape")) {
    require(extent.is_number_unsigned(), param.name + ": shape holds something else than numbers");
    param.shape.push_back(extent.get<std::uint64_t>());
    require(param.shape.back() > 0 && param.shape.back() <= flat_numel_limit / size,
            param.name + ": shape is empty or too large");
    size *= param.shape.back();
  }
  return param;
}

void check_planes(const Json& flat) {
  const Json& planes = list(flat, "planes");
  require(planes.size() == flat_planes, "planes: expected master, exp_avg, exp_avg_sq");
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    require(text(planes[plane], "name") == flat_plane_names[plane] &&
                text(planes[plane], "dtype") == "F32",
            "planes: expected master, exp_avg, exp_avg_sq of F32");
  }
}

FlatSpace flat_of(const Json& json) {
  FlatSpace flat;
  flat.numel = whole_number(json, "numel");
  flat.align = whole_number(json, "align");
  require(flat.align == flat_align_elements, "align: expected 1024");
  require(flat.numel > 0 && flat.numel <= flat_numel_limit && flat.numel % flat.align == 0,
          "numel: not a positive multiple of align");
  check_planes(json);
  std::uint64_t end = 0;
  for (const Json& entry : list(json, "params")) {
    flat.params.push_back(parameter_of(entry));
    const FlatParameter& param = flat.params.back();
    require(param.offset >= end && param.offset % flat.align == 0 && param.offset < flat.numel &&
                param.size() <= flat.numel - param.offset,
            param.name + ": is outside the flat space or over another parameter");
    end = param.offset + param.size();
  }
  require(read_hex64(json, "layout") == layout_hash(flat), "layout: does not match the parameters");
  return flat;
}

TrainState train_of(const Json& json) {
  TrainState train;
  train.seed = whole_number(json, "seed");
  train.micro_batches = whole_number(json, "V");
  train.micro_batch = whole_number(json, "micro_batch");
  train.leaves = whole_number(json, "leaves");
  const Json& sampler = member(json, "sampler");
  train.sampler = {text(sampler, "kind"), whole_number(sampler, "epoch"),
                   whole_number(sampler, "cursor"), whole_number(sampler, "data_bytes"),
                   read_hex32(sampler, "data_crc32c")};
  train.lr_step = whole_number(json, "lr_step");
  train.loss_ema = std::bit_cast<double>(read_hex64(json, "loss_ema"));
  train.skipped_in_a_row = whole_number(json, "skipped_in_a_row");
  if (json.contains("best_loss")) {
    train.best_loss = std::bit_cast<double>(read_hex64(json, "best_loss"));
    train.best_step = whole_number(json, "best_step");
    train.far_above_in_a_row = whole_number(json, "far_above_in_a_row");
  }
  for (const auto& [name, value] : member(json, "config").items()) {
    require(value.is_string(), "config: values are texts");
    train.config[name] = value.get<std::string>();
  }
  return train;
}

// Shards in order of range, without gap or overlap, each file once.
void check_cover(const Manifest& manifest) {
  std::uint64_t covered = 0;
  std::set<std::string> files;
  for (const ShardRecord& shard : manifest.shards) {
    require(shard.range.lo == covered, "shards: do not cover the flat space exactly");
    require(files.insert(shard.file).second, "shards: " + shard.file + " is a duplicate");
    covered = shard.range.hi;
  }
  require(covered == manifest.flat.numel, "shards: do not cover the flat space exactly");
}

void read_surroundings(const Json& json, Manifest& manifest) {
  const Json& replica = member(json, "replica");
  manifest.replica = {read_hex64(replica, "hash"), whole_number(replica, "voters"),
                      truth(replica, "agree")};
  manifest.world = whole_number(member(json, "env"), "world");
  for (const Json& node : list(member(json, "env"), "nodes")) {
    manifest.nodes.push_back(text(node, "host"));
  }
  manifest.previous = text(json, "prev");
  for (const Json& pair : list(json, "lineage")) {
    require(pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() &&
                pair[1].is_number_unsigned(),
            "lineage: expected pairs of generation and step");
    manifest.lineage.push_back({pair[0].get<std::uint64_t>(), pair[1].get<std::uint64_t>()});
  }
}

Manifest manifest_of(const Json& json) {
  require(text(json, "format") == "muster-ckpt", "format: expected muster-ckpt");
  require(whole_number(json, "version") == 1, "version: this reader knows only 1");
  for (const Json& need : list(json, "requires")) {
    require(need.is_string(), "requires: expected texts");
    throw FieldError("requires: unknown feature " + need.get<std::string>());
  }
  Manifest manifest;
  manifest.run_id = text(json, "run_id");
  manifest.generation = whole_number(json, "gen");
  manifest.step = whole_number(json, "step");
  manifest.tokens = whole_number(json, "tokens");
  manifest.created_ns = whole_number(json, "created_ns");
  manifest.code_hash = read_hex64(json, "code_hash");
  manifest.config_hash = read_hex64(json, "config_hash");
  manifest.flat = flat_of(member(json, "flat"));
  for (const Json& shard : list(json, "shards")) manifest.shards.push_back(shard_of(shard));
  manifest.state_hash = read_hex64(json, "state_hash");
  manifest.train = train_of(member(json, "train"));
  read_surroundings(json, manifest);
  check_cover(manifest);
  return manifest;
}

// Runs `read` on the parsed text; every way to fail ends as a fault.
template <class T, class Read>
Checked<T> guarded(std::string_view text, Read read) {
  try {
    return Checked<T>(read(parse_json(text)));
  } catch (const FieldError& error) {
    return CheckpointFault{error.what()};
  } catch (const Json::exception& error) {
    return CheckpointFault{std::string("not valid JSON: ") + error.what()};
  }
}

}  // namespace

std::string format_shard_record(const ShardRecord& shard) {
  return shard_json(shard).dump();
}

std::string format_manifest(const Manifest& manifest) {
  Json shards = Json::array();
  for (const ShardRecord& shard : manifest.shards) shards.push_back(shard_json(shard));
  Json lineage = Json::array();
  for (const GenerationFork& fork : manifest.lineage) {
    lineage.push_back(Json::array({fork.generation, fork.fork_step}));
  }
  const ReplicaVote& replica = manifest.replica;
  const Json document = {
      {"format", "muster-ckpt"},
      {"version", 1},
      {"requires", Json::array()},
      {"run_id", manifest.run_id},
      {"gen", manifest.generation},
      {"step", manifest.step},
      {"tokens", manifest.tokens},
      {"created_ns", std::to_string(manifest.created_ns)},
      {"code_hash", hex64(manifest.code_hash)},
      {"config_hash", hex64(manifest.config_hash)},
      {"flat", flat_json(manifest.flat)},
      {"shards", std::move(shards)},
      {"extra", Json::array()},
      {"state_hash", hex64(manifest.state_hash)},
      {"replica",
       {{"hash", hex64(replica.hash)}, {"voters", replica.voters}, {"agree", replica.agree}}},
      {"train", train_json(manifest.train)},
      {"env", environment_json(manifest)},
      {"prev", manifest.previous},
      {"lineage", std::move(lineage)}};
  return seal_json(document.dump());
}

Checked<Manifest> parse_manifest(std::string_view text) {
  if (!is_committed_json(text))
    return CheckpointFault{"the manifest is torn or its checksum is wrong"};
  return guarded<Manifest>(text, manifest_of);
}

Checked<ShardRecord> parse_shard_record(std::string_view text) {
  return guarded<ShardRecord>(text, shard_of);
}

}  // namespace muster
