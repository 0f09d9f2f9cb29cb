// torch.distributed.checkpoint: one `__R_N.distcp` or more of each rank, written and synced first;
// then `.metadata.tmp`, which is renamed to `.metadata` (filesystem.py, torch 2.15). A retention
// that removes a checkpoint takes its data first: every file that `.metadata` names must be there.
// Of HuggingFaceStorageWriter: an index and its parts, or a shard of each rank.
#include <algorithm>
#include <cstdio>
#include <set>

#include "launcher/agent/foreign_checkpoints/search.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::string_view metadata = ".metadata";
constexpr std::string_view metadata_unfinished = ".metadata.tmp";
constexpr std::string_view data_ending = ".distcp";
constexpr std::int64_t metadata_limit = 64 << 20;
constexpr std::string_view shard_prefix = "shard-";

bool is_data(const FolderEntry& entry) {
  return !entry.is_folder && entry.name.ends_with(data_ending);
}

// "__0_0.distcp" as it stands in a pickle.
std::set<std::string> data_files_named(std::string_view pickle) {
  std::set<std::string> names;
  for (std::size_t end = pickle.find(data_ending); end != pickle.npos;
       end = pickle.find(data_ending, end + 1)) {
    const std::size_t before = pickle.substr(0, end).find_last_not_of("0123456789_");
    const std::size_t begin = before == pickle.npos ? 0 : before + 1;
    names.emplace(pickle.substr(begin, end - begin + data_ending.size()));
  }
  return names;
}

// The shard's rank, from 1.
std::set<std::int64_t> shard_ranks(const ListedFolder& folder) {
  return numbers_in(folder, [](std::string_view name) -> std::optional<std::int64_t> {
    if (!name.starts_with(shard_prefix) || !is_safetensors(name)) return std::nullopt;
    const std::string_view rest = name.substr(shard_prefix.size());
    return last_number(rest.substr(0, rest.find('-')));
  });
}

Judged judge_shards(const ListedFolder& folder, int world) {
  const std::size_t ranks = shard_ranks(folder).size();
  if (world == 0) return unknown("how many ranks wrote shards is not known");
  if (ranks < static_cast<std::size_t>(world)) {
    return incomplete_of("shards", ranks, static_cast<std::size_t>(world));
  }
  Judged judged;
  for (const FolderEntry& entry : folder.entries) {
    if (is_safetensors(entry.name)) {
      judged = worse(judged, judge_safetensors(folder.path_of(entry.name)));
    }
  }
  return judged;
}

}  // namespace

bool is_dcp(const ListedFolder& folder) {
  return folder.find(metadata) || folder.find(metadata_unfinished) ||
         std::ranges::any_of(folder.entries, is_data) || !shard_ranks(folder).empty();
}

Judged judge_dcp(const ListedFolder& folder, int world) {
  if (!shard_ranks(folder).empty()) return judge_shards(folder, world);
  if (!folder.find(metadata) || folder.find(metadata_unfinished)) {
    return incomplete(std::string(metadata) + ", which is written last, is missing");
  }
  const Judged order = judge_order(folder, metadata, is_data);
  if (order.state != SaveState::complete) return order;
  const auto pickle = read_small(folder.path_of(metadata), metadata_limit);
  if (!pickle) return unknown(std::string(metadata) + " cannot be read");
  constexpr char pickle_end = '.';
  if (!pickle->ends_with(pickle_end)) {
    return incomplete(std::string(metadata) + " was not written to its end");
  }
  const auto names = data_files_named(*pickle);
  if (names.empty()) return incomplete(std::string(metadata) + " names no data");
  for (const std::string& name : names) {
    const FolderEntry* data = folder.find(name);
    if (!data || data->bytes == 0) return incomplete(name + (data ? " is empty" : " is missing"));
  }
  // Lightning's, which writes this one after all others.
  if (folder.name().ends_with(".ckpt") && !folder.find("meta.pt")) {
    return incomplete("meta.pt is missing");
  }
  return judge_weights(folder).judged;
}

bool find_dcp(const ListedFolder& folder, SaveSearch& search) {
  if (!is_dcp(folder)) return false;
  search.found.push_back(candidate_of("dcp", folder));
  search.found.back().judge = [folder, world = search.settings.world] {
    return judge_dcp(folder, world);
  };
  return true;
}

// ---- megatron

// Megatron-LM: `latest_checkpointed_iteration.txt` names the iteration whose folder, iter_0000100,
// was written before; "release" is no training's.

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
