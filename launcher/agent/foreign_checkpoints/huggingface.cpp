// `checkpoint-N` of the Hugging Face Trainer: rank 0 writes trainer_state.json last (trainer.py,
// transformers 5.24); rng_state_K.pth of other ranks may come later and are not needed, but one
// that is cut is fatal. A later start takes the highest N whatever it holds, and dies of one that
// is incomplete.
#include <algorithm>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "launcher/agent/foreign_checkpoints/search.h"

namespace muster {

namespace {

constexpr std::string_view name_begins = "checkpoint-";
constexpr std::string_view last_file = "trainer_state.json";
constexpr std::int64_t state_limit = 64 << 20;  // it holds the whole history of losses

bool has(const ListedFolder& folder, bool (*is_such)(std::string_view)) {
  return std::ranges::any_of(folder.entries, [&](const FolderEntry& entry) {
    return !entry.is_folder && is_such(entry.name);
  });
}

// Written first, removed last, by the Trainer's own save on SIGTERM.
constexpr std::string_view unfinished = "checkpoint-is-incomplete.txt";

// What the Trainer alone writes.
bool is_trainers(std::string_view name) {
  return name == last_file || name == unfinished || name == "training_args.bin" ||
         name.starts_with("rng_state");
}

// What every model of these libraries writes, the temporary file of its weights included.
bool is_models(std::string_view name) {
  return name == "config.json" || name == "generation_config.json" || name == "README.md" ||
         name.starts_with(".tmp") || name.starts_with("pytorch_model") || is_safetensors(name);
}

bool is_fsdps(const FolderEntry& entry) {
  return entry.is_folder &&
         (entry.name.starts_with("pytorch_model_fsdp") || entry.name.starts_with("optimizer_"));
}

bool has_trainer_beside(const ListedFolder& folder) {
  const std::filesystem::path own(folder.path);
  std::error_code ignored;
  for (const auto& other : std::filesystem::directory_iterator(own.parent_path(), ignored)) {
    const std::string name = other.path().filename().string();
    if (other.path() == own || !number_between(name, name_begins)) continue;
    if (std::filesystem::exists(other.path() / last_file, ignored)) return true;
  }
  return false;
}

Judged judge_state(const ListedFolder& folder, std::int64_t step) {
  if (folder.find(unfinished)) return incomplete(std::string(unfinished) + " is there");
  if (!folder.find(last_file)) {
    return incomplete(std::string(last_file) + ", which is written last, is missing");
  }
  const auto text = read_small(folder.path_of(last_file), state_limit);
  if (!text) return unknown(std::string(last_file) + " cannot be read");
  const auto state = read_json(*text);
  const auto& value = member_of(state, "global_step");
  if (!value.is_number_integer()) return incomplete(std::string(last_file) + " is not whole");
  if (value.get<std::int64_t>() != step) {
    return unknown(std::string(last_file) + " is of another step");
  }
  return {};
}

// FSDP and DeepSpeed write theirs into folders of their own.
Judged judge_inner(const std::vector<ListedFolder>& inner, int world) {
  Judged judged;
  for (const ListedFolder& folder : inner) {
    if (is_dcp(folder)) judged = worse(judged, judge_dcp(folder, world));
    const std::size_t width = deepspeed_width(folder);
    if (width > 0) judged = worse(judged, judge_deepspeed(folder, width));
  }
  return judged;
}

}  // namespace

bool find_huggingface(const ListedFolder& folder, SaveSearch& search) {
  const auto step = number_between(folder.name(), name_begins);
  if (!step) return false;
  // Others name folders like this, too.
  const bool is_possible = folder.entries.empty() || has(folder, is_trainers) ||
                           has(folder, is_models) || std::ranges::any_of(folder.entries, is_fsdps);
  const bool is_accelerates = folder.find("optimizer.bin") || folder.find("random_states_0.pkl");
  if (!is_possible || is_accelerates || (folder.is_partial && folder.entries.empty())) return false;
  SaveCandidate candidate = candidate_of("huggingface", folder);
  candidate.step = step;
  std::vector<ListedFolder> inner;
  for (const FolderEntry& entry : folder.entries) {
    if (!entry.is_folder) continue;
    auto below = search.look.open(folder.path_of(entry.name));
    candidate.is_partial |= !below || below->is_partial;
    if (!below) continue;
    for (const FolderEntry& file : below->entries) add_entry(candidate, file);
    inner.push_back(std::move(*below));
  }
  const bool is_surely = search.settings.format == "huggingface" || has(folder, is_trainers);
  candidate.judge = [folder, inner = std::move(inner), step = *step, world = search.settings.world,
                     is_surely] {
    const Weights weights = judge_weights(folder);
    // The Trainer was cut in its first file, or a model that somebody else saves.
    const bool is_whole_model = weights.models > 0 && weights.judged.state == SaveState::complete;
    const bool is_of_others = std::ranges::any_of(
        folder.entries, [](const FolderEntry& entry) { return !is_models(entry.name); });
    if (!is_surely && (is_whole_model || is_of_others) && !has_trainer_beside(folder)) {
      return unknown("it holds nothing that the Trainer alone writes");
    }
    Judged judged = judge_state(folder, step);
    judged = worse(worse(judged, weights.judged), judge_inner(inner, world));
    // A retention that was cut short: who saves a scheduler or random numbers saves an optimizer.
    const bool has_companions = has(folder, [](std::string_view name) {
      return name == "scheduler.pt" || name.starts_with("rng_state");
    });
    if (has_companions && inner.empty() && !folder.find("optimizer.pt")) {
      judged = worse(judged, incomplete("optimizer.pt is missing"));
    }
    if (weights.models == 0 && inner.empty()) {
      judged = worse(judged, unknown("it holds no weights that are known"));
    }
    return worse(judged, judge_order(folder, last_file, [](const FolderEntry& entry) {
                   return entry.name == "optimizer.pt" || is_safetensors(entry.name);
                 }));
  };
  search.found.push_back(std::move(candidate));
  return true;
}

// ---- accelerate

// Accelerator.save_state: weights, optimizer.bin, then one random_states_R.pkl of each rank, which
// is its last (checkpointing.py, accelerate 1.15).

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
