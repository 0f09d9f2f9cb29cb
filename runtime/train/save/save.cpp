#include "runtime/train/save/save.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/flat_space.h"
#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/checkpoint/shard.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/crc32c.h"
#include "runtime/report/spent_time.h"
#include "runtime/train/step/stop_request.h"
#include "runtime/zero/bucket.h"

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "unknown"
#endif

namespace muster {
namespace {

Checked<std::string> write_part(SaveContext& context, const FlatSpace& space,
                                const TrainingState& state, const Communicator& ranks) {
  auto shard = begin_part(context, space, state.step, {ranks.rank(), ranks.size(), state.owned},
                          state.own_planes());
  if (!shard) return shard.fault();
  return finish_part(shard.value(), {copies_hash(state)});
}

// Everything from the shards to the commit; returns the trouble after the commit.
Checked<std::string> write_and_commit(SaveContext& context, const FlatSpace& space,
                                      const TrainingState& state, Communicator& ranks,
                                      const std::function<void()>& durable) {
  const auto parts = gather_checked(ranks, write_part(context, space, state, ranks));
  if (!parts) return parts.fault();
  const auto manifest = make_manifest(context, space, state, parts.value());
  if (!manifest) return manifest.fault();
  return fetch_and_commit(context, manifest.value(), ranks, durable);
}

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
    return all_done(ranks_, outcome_);
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

std::string all_is_sane(const ReplicaVote& replica) {
  const std::string values = "every value is finite, what was copied is what was written";
  return replica.voters > 1 ? values + ", the ranks hold the same weights" : values;
}

Manifest describe(const SaveContext& context, const FlatSpace& space,
                  const TrainingProgress& progress, std::size_t ranks) {
  Manifest manifest;
  manifest.run_id = context.identity.run_id;
  manifest.generation = context.identity.generation;
  manifest.step = progress.step;
  manifest.tokens = progress.step * context.tokens_per_step;
  manifest.created_ns = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  manifest.code_hash = context.identity.code_hash;
  manifest.config_hash = context.identity.config_hash;
  manifest.flat = space;
  manifest.world = ranks;
  manifest.nodes = context.nodes;
  manifest.previous = context.previous;
  manifest.lineage = context.lineage;
  manifest.train = context.train;
  manifest.train.sampler.cursor = progress.step * context.batch;
  manifest.train.sampler.epoch = manifest.train.sampler.cursor / context.windows;
  manifest.train.lr_step = progress.step;
  static_cast<LossHistory&>(manifest.train) = progress;
  return manifest;
}

// Adds the ranks' entries: shards, the sum of their hashes, the vote about the replicated weights.
Checked<NoValue> add_parts(const std::vector<std::string>& parts, Manifest& manifest) {
  for (std::size_t r = 0; r < parts.size(); ++r) {
    std::uint64_t hash = 0;
    const auto blank =
        std::from_chars(parts[r].data(), parts[r].data() + parts[r].size(), hash).ptr;
    auto record = parse_shard_record({blank, parts[r].data() + parts[r].size()});
    if (!record) return record.fault();
    if (r == 0) manifest.replica.hash = hash;
    manifest.replica.agree = manifest.replica.agree && manifest.replica.hash == hash;
    if (hash != 0) ++manifest.replica.voters;  // 0: it holds its own elements only
    for (const TensorStats& vitals : record.value().vitals) {
      manifest.state_hash += vitals.hash;
      if (vitals.nonfinite == 0) continue;
      return CheckpointFault{"rank " + std::to_string(r) + ": " + std::to_string(vitals.nonfinite) +
                             " values of the state are not finite: training has diverged"};
    }
    manifest.shards.push_back(std::move(record.value()));
  }
  return NoValue{};
}

std::string weights_header(const FlatSpace& space) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t at = 0;
  for (const FlatParameter& param : space.params) {
    const std::uint64_t end = at + param.size() * sizeof(float);
    header[param.name] = {{"dtype", "F32"}, {"shape", param.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  return safetensors_header(header.dump(), 8);
}

std::uint64_t bytes_of(const FlatSpace& space) {
  std::uint64_t elements = 0;
  for (const FlatParameter& param : space.params) elements += param.size();
  return elements * sizeof(float);
}

constexpr std::uint64_t gathered_elements = 4 << 20;

// Rank 0 gets elements `range` of all owners; the result of the others means nothing.
std::vector<float> gather_range(const ElementRange& range, const FlatSpace& space,
                                const TrainingState& state, Communicator& ranks) {
  const std::size_t size = ranks.size();
  const bool receives = ranks.rank() == 0;
  const ElementRange own = part_within(range, state.owned);
  std::vector<ElementRange> out(size), in(size);
  out[0] = own;
  for (std::size_t r = 0; r < size && receives; ++r) {
    in[r] = part_within(owned_elements(space, r, size), range);
  }
  std::vector<float> values(receives ? range.size() : 0);
  ranks.all_to_all(state.own(state.weights), out, values, in);
  return values;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

RunIdentity make_run_identity(const TrainOptions& options, const RankVariables& variables) {
  std::string config;
  for (const auto& [name, value] : result_options(options)) config += name + "=" + value + "\n";
  const std::string name = variables.job.empty() ? config : variables.job;
  RunIdentity identity;
  identity.config_hash = fnv1a64(config);
  identity.code_hash = fnv1a64("muster-train " MUSTER_VERSION);
  identity.run_id =
      fields::hex64(fnv1a64(name)) + fields::hex64(fnv1a64(name, fnv1a64("muster run")));
  return identity;
}

std::string path_of_save(const SaveContext& context, std::uint64_t step) {
  return context.root + "/" + checkpoint_directory_name({step, context.identity.generation});
}

Checked<std::string> fetch_and_commit(const SaveContext& context, const Manifest& manifest,
                                      Communicator& ranks, const std::function<void()>& durable) {
  const auto fetched = fetch_missing_shards(path_of_save(context, manifest.step), manifest, ranks);
  if (!fetched) return fetched.fault();
  Checked<std::string> mine = std::string();
  if (ranks.rank() == 0) mine = commit_and_collect(context, manifest, durable);
  const auto outcome = gather_checked(ranks, mine);
  if (!outcome) return outcome.fault();
  // On other nodes only orphans can lie: the shards that rank 0 has fetched before.
  if (fetched.value() > 0 && ranks.rank() != 0) {
    (void)collect_checkpoints(context.root, {context.keep, manifest.generation, manifest.step});
  }
  return outcome.value().front();
}

SaveOutcome conclude_save(SaveContext& context, std::uint64_t step,
                          const Checked<std::string>& trouble) {
  const std::string name = checkpoint_directory_name({step, context.identity.generation});
  if (!trouble) {
    discard_uncommitted(path_of_save(context, step));
    return {name, trouble.reason(), false, step};
  }
  context.previous = name;
  return {name, trouble.value(), true, step};
}

SaveOutcome save_checkpoint(SaveContext& context, const FlatSpace& space,
                            const TrainingState& state, Communicator& ranks) {
  double durable_s = 0;
  const Stopwatch since_begin;
  const auto trouble =
      write_and_commit(context, space, state, ranks, [&] { durable_s = since_begin.seconds(); });
  SaveOutcome outcome = conclude_save(context, state.step, trouble);
  outcome.copied_s = outcome.durable_s = durable_s;
  return outcome;
}

std::string checkpoint_root(const TrainOptions& options, const RankVariables& variables) {
  return variables.checkpoint_dir.empty() ? options.checkpoint_dir : variables.checkpoint_dir;
}

SaveContext make_save_context(const TrainOptions& options, const RankVariables& variables,
                              const BatchPlan& plan, const SamplerState& data,
                              std::uint64_t windows) {
  SaveContext context;
  context.root = checkpoint_root(options, variables);
  context.identity = make_run_identity(options, variables);
  context.host = host_name();
  context.keep = options.keep;
  context.batch = plan.batch;
  context.tokens_per_step = plan.batch * options.shape.context;
  context.windows = windows;
  context.train.seed = options.seed;
  context.train.micro_batches = plan.micro_batches();
  context.train.micro_batch = plan.micro_batch;
  context.train.leaves = plan.leaves;
  context.train.sampler = data;
  context.train.config = result_options(options);
  return context;
}

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

Checked<ShardWrite> begin_part(SaveContext& context, const FlatSpace& space, std::uint64_t step,
                               const ShardOwner& owner, const PlaneSpans& planes) {
  const std::uint64_t generation = context.identity.generation;
  auto path = prepare_checkpoint_directory(context.root, step, generation);
  if (!path) return path.fault();
  return ShardWrite::begin(
      path.value(), {context.identity.run_id, step, generation, layout_hash(space)},
      {context.host, owner.rank, owner.ranks}, owner.owned, planes, context.writes);
}

Checked<std::string> finish_part(ShardWrite& shard, const SourceHashes& source) {
  const auto record = shard.finish();
  if (!record) return record.fault();
  for (std::size_t plane = 0; source.owned && plane < flat_planes; ++plane) {
    if (record.value().vitals[plane].hash == (*source.owned)[plane]) continue;
    return CheckpointFault{"the copy of " + std::string(flat_plane_names[plane]) +
                           " is not what the state held: the memory of " + record.value().host +
                           " is in doubt"};
  }
  return std::to_string(source.weights) + " " + format_shard_record(record.value());
}

Checked<Manifest> make_manifest(const SaveContext& context, const FlatSpace& space,
                                const TrainingProgress& progress,
                                const std::vector<std::string>& parts) {
  Manifest manifest = describe(context, space, progress, parts.size());
  if (auto added = add_parts(parts, manifest); !added) return added.fault();
  return manifest;
}

Checked<std::string> commit_and_collect(const SaveContext& context, const Manifest& manifest,
                                        const std::function<void()>& durable) {
  if (lease_is_over()) return CheckpointFault{lease_complaint};
  const auto committed = commit_checkpoint(context.root, manifest);
  if (!committed) return committed;
  durable();
  if (!manifest.replica.agree) return std::string("the weights of the ranks differ");
  const auto sane =
      mark_sane(path_of_save(context, manifest.step),
                {manifest.step, manifest.generation, {all_is_sane(manifest.replica)}});
  Retention retention{context.keep, manifest.generation, manifest.step};
  retention.referred = context.spared;
  const auto gone = collect_checkpoints(context.root, retention);
  if (!committed.value().empty()) return "the hint is old: " + committed.value();
  if (!sane) return "its grade stays COMMITTED: " + sane.reason();
  if (!gone) return "old checkpoints stay: " + gone.reason();
  return std::string();
}

WeightsFile::WeightsFile(const FlatSpace& space, ReplacingFile file, std::uint64_t header_bytes)
    : space_(&space), file_(std::move(file)), header_bytes_(header_bytes) {}

Checked<WeightsFile> WeightsFile::create(const std::string& directory, const FlatSpace& space) {
  const std::string header = weights_header(space);
  auto file = ReplacingFile::create(directory, weights_file_name, header.size() + bytes_of(space));
  if (!file) return file.fault();
  auto put = file.value().write_at(0, header.data(), header.size());
  if (!put) return put.fault();
  return WeightsFile(space, std::move(file.value()), header.size());
}

Checked<NoValue> WeightsFile::write(const ElementRange& range, std::span<const float> weights) {
  std::uint64_t begin = header_bytes_;  // of the parameter in the file
  for (const FlatParameter& param : space_->params) {
    const std::uint64_t lo = std::max(param.offset, range.lo);
    const std::uint64_t hi = std::min(param.offset + param.size(), range.hi);
    if (lo < hi) {
      auto put = file_.write_at(begin + (lo - param.offset) * sizeof(float),
                                &weights[lo - range.lo], (hi - lo) * sizeof(float));
      if (!put) return put;
    }
    begin += param.size() * sizeof(float);
  }
  return NoValue{};
}

Checked<NoValue> write_final_weights(const std::string& directory, const FlatSpace& space,
                                     const TrainingState& state, Communicator& ranks) {
  Checked<NoValue> mine = NoValue{};
  std::optional<WeightsFile> file;
  if (ranks.rank() == 0) {
    auto created = WeightsFile::create(directory, space);
    if (created) file.emplace(std::move(created.value()));
    if (!created) mine = created.fault();
  }
  if (auto begun = all_done(ranks, mine); !begun) return begun;
  for (std::uint64_t at = 0; at < space.numel; at += gathered_elements) {
    const ElementRange range{at, std::min(at + gathered_elements, space.numel)};
    if (!state.holds_own_only(state.weights)) {
      if (file && mine) mine = file->write(range, state.part(state.weights, range));
      continue;
    }
    const std::vector<float> values = gather_range(range, space, state, ranks);
    if (file && mine) mine = file->write(range, values);
  }
  if (file && mine) mine = file->replace();
  return all_done(ranks, mine);
}

}  // namespace muster
