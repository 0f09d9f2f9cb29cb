// Megatron-LM: `latest_checkpointed_iteration.txt` names the iteration whose folder, iter_0000100,
// was written before; "release" is no training's.
#include <cstdio>

#include "launcher/agent/foreign_checkpoints/kinds.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::string_view names_latest = "latest_checkpointed_iteration.txt";
constexpr int folders_deep = 2;  // mp_rank_00_000/model_optim_rng.pt

void add_below(const ListedFolder& folder, const Look& look, int depth,
               std::vector<ListedFolder>& all) {
  all.push_back(folder);
  if (depth == 0) return;
  for (const FolderEntry& entry : folder.entries) {
    if (!entry.is_folder) continue;
    if (const auto below = look.open(folder.path_of(entry.name))) {
      add_below(*below, look, depth - 1, all);
    }
  }
}

Judged judge_megatron(const std::vector<ListedFolder>& folders, int world) {
  std::size_t files = 0;
  Judged judged;
  for (const ListedFolder& folder : folders) {
    if (is_dcp(folder)) {
      ++files;
      judged = worse(judged, judge_dcp(folder, world));
      continue;
    }
    const Weights weights = judge_weights(folder);
    files += weights.models;
    judged = worse(judged, weights.judged);
  }
  return files == 0 ? incomplete("it holds no weights") : judged;
}

}  // namespace

bool find_megatron(const ListedFolder& folder, SaveSearch& search) {
  if (!folder.find(names_latest)) return false;
  constexpr std::int64_t number_limit = 64;
  const auto text = read_small(folder.path_of(names_latest), number_limit);
  const auto iteration = read_integer(trimmed(text.value_or("")));
  char name[48];
  std::snprintf(name, sizeof name, "iter_%07lld", static_cast<long long>(iteration.value_or(0)));
  const auto latest = iteration ? search.look.open(folder.path_of(name)) : std::nullopt;
  if (!latest) return true;
  std::vector<ListedFolder> all;
  add_below(*latest, search.look, folders_deep, all);
  SaveCandidate candidate{"megatron", latest->path, iteration};
  for (const ListedFolder& each : all) {
    for (const FolderEntry& entry : each.entries) add_entry(candidate, entry);
  }
  candidate.judge = [all, world = search.settings.world] { return judge_megatron(all, world); };
  search.found.push_back(std::move(candidate));
  return true;
}

}  // namespace muster
