// TensorFlow: PREFIX.data-00000-of-00001 files, then PREFIX.index, which is renamed into place
// (tensor_bundle.cc).
#include <algorithm>

#include "launcher/agent/foreign_checkpoints/kinds.h"

namespace muster {

namespace {

constexpr std::string_view index_ending = ".index";

// Entries are in the order of their names.
std::span<const FolderEntry> parts_of(const ListedFolder& folder, const std::string& prefix) {
  const std::string data = prefix + ".data-";
  const auto first = std::ranges::lower_bound(folder.entries, data, {}, &FolderEntry::name);
  const auto end = std::find_if_not(first, folder.entries.end(), [&](const FolderEntry& entry) {
    return entry.name.starts_with(data);
  });
  return {first, end};
}

// The names say how many there are.
Judged judge_parts(std::span<const FolderEntry> parts) {
  const auto there = static_cast<std::int64_t>(parts.size());
  const std::int64_t wanted = parts.empty() ? 0 : last_number(parts.back().name).value_or(0);
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
    const auto parts = parts_of(folder, prefix);
    for (const FolderEntry& part : parts) add_entry(candidate, part);
    if (parts.empty() && prefix.find("ckpt") == prefix.npos) continue;  // an index of another kind
    candidate.judge = [judged = judge_parts(parts)] { return judged; };
    search.found.push_back(std::move(candidate));
  }
  return false;
}

}  // namespace muster
