#include "runtime/estimate/run_memory.h"

#include "runtime/estimate/fit.h"
#include "runtime/train/batch_plan.h"
#include "runtime/train/start_error.h"

namespace muster {
namespace {

// Of text; tokens bring their own, which lies with them on the nodes.
constexpr std::size_t usual_vocabulary = 256;

}  // namespace

std::variant<RunMemory, std::string> run_memory(const std::vector<std::string>& words,
                                                const RankLayout& layout,
                                                std::optional<std::uint64_t> limit_bytes) {
  auto parsed = read_train_options(words);
  if (const auto* fault = std::get_if<std::string>(&parsed)) return *fault;
  auto& options = std::get<TrainOptions>(parsed);
  if (options.shape.vocabulary == 0) options.shape.vocabulary = usual_vocabulary;
  RunMemory memory;
  try {
    memory.remarks = sharing_remarks(options, layout.ranks);
    memory.bytes = device_bytes(rank_memory(options, layout), layout.kind);
  } catch (const StartError& error) {
    return std::string(error.what());
  }
  if (!limit_bytes || memory.bytes <= *limit_bytes) return memory;
  const auto changes = cheapest_changes(options, layout, {*limit_bytes, {}}, {}, 1);
  if (!changes.empty()) memory.cheapest_change = changes.front().what;
  return memory;
}

}  // namespace muster
