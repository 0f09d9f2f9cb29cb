// Ray Train: checkpoint_manager_snapshot.json lists the folders beside it that are done; it is
// overwritten in place (train v2, ray 2.60).
#include <nlohmann/json.hpp>

#include "launcher/agent/foreign_checkpoints/kinds.h"

namespace muster {

namespace {

constexpr std::string_view snapshot = "checkpoint_manager_snapshot.json";
constexpr std::int64_t snapshot_limit = 16 << 20;

std::optional<std::int64_t> step_in(const nlohmann::json& result) {
  for (const char* name : {"step", "global_step", "training_iteration"}) {
    const auto& value = member_of(member_of(result, "metrics"), name);
    if (value.is_number_integer()) return value.get<std::int64_t>();
  }
  return std::nullopt;
}

}  // namespace

bool find_ray(const ListedFolder& folder, SaveSearch& search) {
  if (!folder.find(snapshot)) return false;
  const auto text = read_small(folder.path_of(snapshot), snapshot_limit);
  const auto list = read_json(text.value_or(""));
  for (const nlohmann::json& result : member_of(list, "checkpoint_results")) {
    const auto& name = member_of(result, "checkpoint_dir_name");
    if (!name.is_string()) continue;
    const auto path = name.get<std::string>();
    if (!folder.find(path)) continue;  // it names an entry, no path that leads elsewhere
    const auto saved = search.look.open(folder.path_of(path));
    if (!saved) continue;
    SaveCandidate candidate = candidate_of("ray", *saved);
    candidate.step = step_in(result);
    candidate.judge = [] { return Judged{}; };
    search.found.push_back(std::move(candidate));
  }
  return true;
}

}  // namespace muster
