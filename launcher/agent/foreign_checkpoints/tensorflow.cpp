// TensorFlow: PREFIX.data-00000-of-00001 files, then PREFIX.index, which is renamed into place
// (tensor_bundle.cc).
#include "launcher/agent/foreign_checkpoints/kinds.h"

namespace muster {

namespace {

constexpr std::string_view index_ending = ".index";

// Parts of `prefix`, and how many the names say there are.
Judged judge_parts(const ListedFolder& folder, const std::string& prefix) {
  const std::string data = prefix + ".data-";
  std::int64_t there = 0;
  std::int64_t wanted = 0;
  for (const FolderEntry& entry : folder.entries) {
    if (!entry.name.starts_with(data)) continue;
    ++there;
    wanted = last_number(entry.name).value_or(0);
  }
  if (there > 0 && there >= wanted) return {};
  return incomplete(std::to_string(there) + " of " + std::to_string(wanted) +
                    " data files are there");
}

}  // namespace

bool find_tensorflow(const ListedFolder& folder, SaveSearch& search) {
  if (folder.name().ends_with("_temp")) return true;  // parts of one that is being written
  for (const FolderEntry& entry : folder.entries) {
    if (entry.is_folder || !entry.name.ends_with(index_ending)) continue;
    const std::string prefix = entry.name.substr(0, entry.name.size() - index_ending.size());
    SaveCandidate candidate{"tensorflow", folder.path_of(prefix), last_number(prefix)};
    add_entry(candidate, entry);
    bool has_data = false;
    for (const FolderEntry& other : folder.entries) {
      if (!other.name.starts_with(prefix + ".data-")) continue;
      has_data = true;
      add_entry(candidate, other);
    }
    if (!has_data && prefix.find("ckpt") == prefix.npos) continue;  // an index of something else
    candidate.judge = [folder, prefix] { return judge_parts(folder, prefix); };
    search.found.push_back(std::move(candidate));
  }
  return false;
}

}  // namespace muster
