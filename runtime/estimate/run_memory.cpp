#include "runtime/estimate/run_memory.h"

#include <algorithm>

#include "runtime/estimate/fit.h"
#include "runtime/protocol/start_error.h"
#include "runtime/train/step/batch_plan.h"

namespace muster {
namespace {

// Of text; tokens bring their own, which lies with them on the nodes.
constexpr std::size_t usual_vocabulary = 256;

// Of the rank that takes most, with whatever number of ranks there are meanwhile.
std::uint64_t most_bytes(const TrainOptions& options, const RankLayout& layout) {
  if (!layout.least_ranks) return device_bytes(rank_memory(options, layout), layout.kind);
  std::uint64_t most = 0;
  RankLayout now = layout;
  for (now.ranks = *layout.least_ranks;; now.ranks = std::min(2 * now.ranks, layout.ranks)) {
    most = std::max(most, device_bytes(rank_memory(options, now), layout.kind));
    if (now.ranks >= layout.ranks) break;
  }
  if (layout.ranks == 1) return most;
  // Who joins gets the state of the others beside its own.
  RankMemory joining = rank_memory(options, layout);
  joining.gradients = joining.activations = joining.buffers = 0;
  joining.weights *= 2;
  joining.optimizer *= 2;
  return std::max(most, device_bytes(joining, layout.kind));
}

}  // namespace

std::variant<RunMemory, ImpossibleRun, std::string> run_memory(
    const std::vector<std::string>& words, const RankLayout& layout,
    std::optional<std::uint64_t> limit_bytes) {
  auto parsed = read_train_options(words);
  if (const auto* fault = std::get_if<std::string>(&parsed)) return *fault;
  auto& options = std::get<TrainOptions>(parsed);
  if (options.shape.vocabulary == 0) options.shape.vocabulary = usual_vocabulary;
  if (layout.least_ranks) options = elastic_options(options);
  RunMemory memory;
  try {
    memory.remarks = sharing_remarks(options, layout.ranks);
    memory.bytes = most_bytes(options, layout);
  } catch (const StartError& error) {
    return ImpossibleRun{error.what()};
  }
  if (!limit_bytes || layout.least_ranks || memory.bytes <= *limit_bytes) return memory;
  const auto changes = cheapest_changes(options, layout, {*limit_bytes, {}}, {}, 1);
  if (!changes.empty()) memory.cheapest_change = changes.front().what;
  return memory;
}

}  // namespace muster
