// Files of safetensors that no framework's folder is about: one each, or the parts of an index.
#include <algorithm>

#include "launcher/agent/foreign_checkpoints/kinds.h"

namespace muster {

bool find_safetensors(const ListedFolder& folder, SaveSearch& search) {
  const auto index = std::ranges::find_if(folder.entries, [](const FolderEntry& entry) {
    return !entry.is_folder && is_index(entry.name) &&
           entry.name.find("safetensors") != std::string::npos;
  });
  if (index != folder.entries.end()) {
    search.found.push_back(candidate_of("safetensors", folder));
    search.found.back().judge = [folder, entry = *index] { return judge_index(folder, entry); };
    return false;
  }
  for (const FolderEntry& entry : folder.entries) {
    if (entry.is_folder || !is_safetensors(entry.name) || is_part(entry.name)) continue;
    SaveCandidate candidate{"safetensors", folder.path_of(entry.name)};
    candidate.step = step_named(std::string_view(entry.name).substr(0, entry.name.rfind('.')));
    add_entry(candidate, entry);
    candidate.judge = [path = candidate.path] { return judge_safetensors(path); };
    search.found.push_back(std::move(candidate));
  }
  return false;
}

}  // namespace muster
