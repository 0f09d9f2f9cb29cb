#include <bit>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "scheduler/text/number.h"

namespace muster {
namespace {

using namespace fields;

Json vitals_json(const PlaneVitals& vitals) {
  return {{"nonfinite", vitals.nonfinite},
          {"absmax", hex32(std::bit_cast<std::uint32_t>(vitals.absmax))},
          {"l2", hex64(std::bit_cast<std::uint64_t>(vitals.l2))},
          {"hash", hex64(vitals.hash)}};
}

Json shard_json(const ShardRecord& shard) {
  Json vitals = Json::object();
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    vitals[flat_plane_names[plane]] = vitals_json(shard.vitals[plane]);
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

}  // namespace muster
