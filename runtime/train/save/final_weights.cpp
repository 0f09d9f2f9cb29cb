#include "runtime/train/save/final_weights.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/checkpoint/shard.h"
#include "runtime/zero/bucket.h"

namespace muster {
namespace {

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
