#include "runtime/train/save/final_weights.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "runtime/report/weights_file.h"
#include "runtime/zero/bucket.h"

namespace muster {
namespace {

constexpr std::uint64_t gathered_elements = 4 << 20;

Checked<std::string> vote_of(const Checked<NoValue>& done) {
  if (!done) return done.fault();
  return std::string();
}

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

Checked<NoValue> write_final_weights(const std::string& directory, const FlatSpace& space,
                                     const TrainingState& state, Communicator& ranks) {
  Checked<NoValue> mine = NoValue{};
  std::optional<WeightsFile> file;
  if (mine && ranks.rank() == 0) {
    auto created = WeightsFile::create(directory, space);
    if (created) file.emplace(std::move(created.value()));
    if (!created) mine = created.fault();
  }
  if (auto begun = gather_checked(ranks, vote_of(mine)); !begun) return begun.fault();
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
  if (auto ended = gather_checked(ranks, vote_of(mine)); !ended) return ended.fault();
  return NoValue{};
}

}  // namespace muster
