// A folder that a program itself calls complete, by a file of its own: `checkpoint.marker`.
#include <algorithm>

#include "launcher/agent/foreign_checkpoints/kinds.h"
#include "scheduler/text/pattern.h"

namespace muster {

bool find_marked(const ListedFolder& folder, const Look&, const LookSettings& settings,
                 std::vector<SaveCandidate>& found) {
  const bool is_marked = std::ranges::any_of(folder.entries, [&](const FolderEntry& entry) {
    return !entry.is_folder && fits_pattern(settings.marker, entry.name);
  });
  if (settings.marker.empty() || !is_marked) return false;
  found.push_back(candidate_of("marker", folder));
  found.back().judge = [] { return Judged{}; };
  return true;
}

}  // namespace muster
