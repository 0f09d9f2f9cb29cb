// What a program itself calls complete, by a file of its own: `checkpoint.marker` in a folder, or
// what checkpoint_saved() of muster.py writes into a folder or beside a file.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/agent/foreign_checkpoints/kinds.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

constexpr std::string_view own_marker = ".muster-complete";

// {"step": N}
std::optional<std::int64_t> step_in(const std::string& marker) {
  constexpr std::int64_t limit = 4096;
  const auto text = read_small(marker, limit);
  const auto content = text ? read_json(*text) : nlohmann::json();
  const auto step = content.is_object() ? content.find("step") : content.end();
  const bool is_told = step != content.end() && step->is_number_unsigned();
  if (!is_told || step->get<std::uint64_t>() > INT64_MAX) return {};
  return step->get<std::int64_t>();
}

// Adds what lies in its folders. False: not all of it could be seen.
bool add_below(SaveCandidate& candidate, const ListedFolder& folder, const Look& look, int depth) {
  for (const FolderEntry& entry : folder.entries) {
    if (!entry.is_folder) continue;
    const auto inner = depth > 0 ? look.open(folder.path_of(entry.name)) : std::nullopt;
    if (!inner || inner->is_partial || !add_below(candidate, *inner, look, depth - 1)) return false;
    for (const FolderEntry& file : inner->entries) add_entry(candidate, file);
  }
  return true;
}

// One that is older than the data is of what lay there before.
bool add_if_current(SaveCandidate candidate, const FolderEntry& marker, const std::string& path,
                    std::vector<SaveCandidate>& found) {
  if (marker.is_folder || marker.changed_ns < candidate.changed_ns) return false;
  const auto step = step_in(path);
  if (!step) return false;
  candidate.step = step;
  candidate.judge = [] { return Judged{}; };
  found.push_back(std::move(candidate));
  return true;
}

void find_marked_files(const ListedFolder& folder, std::vector<SaveCandidate>& found) {
  for (const FolderEntry& marker : folder.entries) {
    if (!marker.name.ends_with(own_marker)) continue;
    const std::string name = marker.name.substr(0, marker.name.size() - own_marker.size());
    const FolderEntry* data = name.empty() ? nullptr : folder.find(name);
    if (!data || data->is_folder) continue;
    SaveCandidate candidate{"marker", folder.path_of(name)};
    add_entry(candidate, *data);
    add_if_current(std::move(candidate), marker, folder.path_of(marker.name), found);
  }
}

bool is_marked_folder(const ListedFolder& folder, const Look& look,
                      std::vector<SaveCandidate>& found) {
  constexpr int depth_limit_of_data = 4;
  const FolderEntry* own = folder.find(own_marker);
  if (!own || folder.is_partial) return false;
  SaveCandidate candidate = candidate_of("marker", folder);
  return add_below(candidate, folder, look, depth_limit_of_data) &&
         add_if_current(std::move(candidate), *own, folder.path_of(own_marker), found);
}

}  // namespace

bool find_marked(const ListedFolder& folder, const Look& look, const LookSettings& settings,
                 std::vector<SaveCandidate>& found) {
  find_marked_files(folder, found);
  if (is_marked_folder(folder, look, found)) return true;
  const bool is_marked = std::ranges::any_of(folder.entries, [&](const FolderEntry& entry) {
    return !entry.is_folder && fits_pattern(settings.marker, entry.name);
  });
  if (settings.marker.empty() || !is_marked) return false;
  found.push_back(candidate_of("marker", folder));
  found.back().judge = [] { return Judged{}; };
  return true;
}

}  // namespace muster
