// DeepSpeed: `global_stepN` with mp_rank_MM_model_states.pt and, under ZeRO, one optimizer file of
// each data-parallel rank; beside them `latest`, which names one. `latest` is written without a
// barrier, so that it says nothing of whether the other ranks are done; nor do times. But rank 0
// writes it after its own files, the model first: before that, whether there is ZeRO is not known
// (engine.py, deepspeed 0.19).
#include <algorithm>
#include <set>

#include "launcher/agent/foreign_checkpoints/search.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::string_view model_ending = "_model_states.pt";
constexpr std::string_view optimizer_ending = "_optim_states.pt";
constexpr std::string_view latest = "latest";

// K of "zero_pp_rank_K_mp_rank_00_optim_states.pt" and "bf16_zero_pp_rank_K_…".
std::optional<std::int64_t> zero_rank(std::string_view name) {
  constexpr std::string_view mark = "zero_pp_rank_";
  const std::size_t at = name.find(mark);
  if (at == name.npos) return std::nullopt;
  const std::string_view rest = name.substr(at + mark.size());
  return last_number(rest.substr(0, rest.find('_')));
}

std::set<std::int64_t> zero_ranks(const ListedFolder& folder, std::string_view ending) {
  std::set<std::int64_t> ranks;
  for (const FolderEntry& entry : folder.entries) {
    if (!entry.name.ends_with(ending)) continue;
    if (const auto rank = zero_rank(entry.name)) ranks.insert(*rank);
  }
  return ranks;
}

bool has_files(const ListedFolder& folder) {
  return std::ranges::any_of(folder.entries, [](const FolderEntry& entry) {
    return entry.name.ends_with(model_ending) || entry.name.ends_with(optimizer_ending);
  });
}

// ZeRO-3 has files of the model of each rank, too.
bool is_zero(const ListedFolder& folder) {
  return !zero_ranks(folder, optimizer_ending).empty() || !zero_ranks(folder, model_ending).empty();
}

// The file `latest` beside the steps.
struct Latest {
  std::string path;
  std::optional<std::int64_t> changed_ns;  // absent: there is none
};

// Whether rank 0 had written all files of the step when it wrote `latest`.
bool is_before_latest(const ListedFolder& step_folder, std::int64_t changed_ns,
                      const Latest& at_latest) {
  constexpr std::int64_t name_limit = 4096;
  if (!at_latest.changed_ns) return false;
  if (*at_latest.changed_ns >= changed_ns) return true;
  const auto named = read_small(at_latest.path, name_limit);  // copied, perhaps
  return named && trimmed(*named) == step_folder.name();
}

Judged judge_ranks(const ListedFolder& folder, std::string_view ending, std::size_t wanted) {
  const auto ranks = zero_ranks(folder, ending);
  if (ranks.empty() || ranks.size() >= wanted) return {};
  if (*ranks.begin() > 0) return unknown("another node may have the other ranks' files");
  return incomplete_of("*" + std::string(ending), ranks.size(), wanted);
}

}  // namespace

// Data-parallel ranks, as far as this folder shows; 1 without ZeRO; 0: it is none of DeepSpeed's.
std::size_t deepspeed_width(const ListedFolder& step_folder) {
  if (!has_files(step_folder)) return 0;
  const auto ranks = zero_ranks(step_folder, optimizer_ending);
  return ranks.empty() ? 1 : static_cast<std::size_t>(*ranks.rbegin()) + 1;
}

Judged judge_deepspeed(const ListedFolder& step_folder, std::size_t widest, bool has_zero) {
  const bool has_model = std::ranges::any_of(step_folder.entries, [](const FolderEntry& entry) {
    return entry.name.ends_with(model_ending);
  });
  if (!has_model) return incomplete("*" + std::string(model_ending) + " is missing");
  const bool needs_optimizer = has_zero || widest > 1 || is_zero(step_folder);
  if (needs_optimizer && zero_ranks(step_folder, optimizer_ending).empty()) {
    return incomplete("*" + std::string(optimizer_ending) + " is missing");
  }
  Judged judged = worse(judge_ranks(step_folder, optimizer_ending, widest),
                        judge_ranks(step_folder, model_ending, widest));
  return worse(judged, judge_weights(step_folder).judged);
}

bool find_deepspeed(const ListedFolder& folder, SaveSearch& search) {
  std::vector<ListedFolder> steps;
  std::size_t widest = 0;
  bool has_zero = false;
  Latest at_latest{folder.path_of(latest), std::nullopt};
  if (const FolderEntry* found = folder.find(latest)) at_latest.changed_ns = found->changed_ns;
  for (const FolderEntry& entry : folder.entries) {
    if (!entry.is_folder) continue;
    if (!at_latest.changed_ns && !entry.name.starts_with("global_step")) continue;
    auto step = search.look.open(folder.path_of(entry.name));
    if (!step || !(has_files(*step) || entry.name.starts_with("global_step"))) continue;
    widest = std::max(widest, deepspeed_width(*step));
    has_zero |= is_zero(*step);
    search.known.insert(step->path);
    steps.push_back(std::move(*step));
  }
  // Without tensor or pipeline parallelism every rank is a data-parallel one.
  const auto has_one_model = [](const ListedFolder& step) {
    return std::ranges::none_of(step.entries, [](const FolderEntry& entry) {
      return entry.name.find("mp_rank_01") != std::string::npos || entry.name.starts_with("layer_");
    });
  };
  for (const ListedFolder& step : steps) {
    SaveCandidate candidate = candidate_of("deepspeed", step);
    std::size_t wanted = widest;
    if (has_zero && has_one_model(step)) {
      wanted = std::max(wanted, static_cast<std::size_t>(std::max(0, search.settings.world)));
    }
    // What of `folder` it needs, no more: there may be thousands of steps in one.
    candidate.judge = [at_latest, step, wanted, has_zero, changed_ns = candidate.changed_ns] {
      const Judged judged = judge_deepspeed(step, wanted, has_zero);
      const bool is_of_rank_0 = step.find("mp_rank_00_model_states.pt") != nullptr;
      if (has_zero || !is_of_rank_0) return judged;
      if (is_before_latest(step, changed_ns, at_latest)) return judged;
      return worse(judged, unknown("whether there is ZeRO is not known before latest is written"));
    };
    search.found.push_back(std::move(candidate));
  }
  return false;
}

}  // namespace muster
