// Accelerator.save_state: weights, optimizer.bin, then one random_states_R.pkl of each rank, which
// is its last (checkpointing.py, accelerate 1.15).
#include <set>

#include "launcher/agent/foreign_checkpoints/kinds.h"

namespace muster {

namespace {

constexpr std::string_view states_prefix = "random_states_";
constexpr std::string_view states_ending = ".pkl";

std::set<std::int64_t> ranks_saved(const ListedFolder& folder) {
  return numbers_in(folder, [](std::string_view name) {
    return number_between(name, states_prefix, states_ending);
  });
}

bool has_weights(const ListedFolder& folder) {
  return folder.find("model.safetensors") || folder.find("model.safetensors.index.json") ||
         folder.find("pytorch_model.bin") || folder.find("pytorch_model.bin.index.json");
}

Judged judge_accelerate(const ListedFolder& folder, int world) {
  if (!has_weights(folder)) return incomplete("the model is missing");
  if (!folder.find("optimizer.bin")) return incomplete("optimizer.bin is missing");
  const auto ranks = ranks_saved(folder);
  const std::size_t wanted = world > 0       ? static_cast<std::size_t>(world)
                             : ranks.empty() ? 1
                                             : static_cast<std::size_t>(*ranks.rbegin()) + 1;
  if (ranks.size() < wanted) {
    return incomplete_of(std::string(states_prefix) + "*" + std::string(states_ending),
                         ranks.size(), wanted);
  }
  const Judged order = judge_order(folder, "random_states_0.pkl", [](const FolderEntry& entry) {
    return entry.name == "optimizer.bin" || is_safetensors(entry.name);
  });
  if (order.state != SaveState::complete) return order;
  return judge_weights(folder).judged;
}

}  // namespace

bool find_accelerate(const ListedFolder& folder, SaveSearch& search) {
  const bool is_named = number_between(folder.name(), "checkpoint_").has_value();
  const bool is_it = !ranks_saved(folder).empty() ||
                     (has_weights(folder) && (folder.find("optimizer.bin") || is_named));
  if (!is_it) return false;
  search.found.push_back(candidate_of("accelerate", folder));
  search.found.back().judge = [folder, world = search.settings.world] {
    return judge_accelerate(folder, world);
  };
  return true;
}

}  // namespace muster
