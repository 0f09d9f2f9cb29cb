#include "launcher/agent/foreign_checkpoints/kinds.h"

#include <algorithm>
#include <array>

namespace muster {

namespace {

// Folders first, those that hold others' files before them; then single files.
constexpr std::array kinds{
    CheckpointKind{"marker", find_marked},
    CheckpointKind{"ray", find_ray},
    CheckpointKind{"megatron", find_megatron},
    CheckpointKind{"huggingface", find_huggingface},
    CheckpointKind{"deepspeed", find_deepspeed},
    CheckpointKind{"dcp", find_dcp},
    CheckpointKind{"accelerate", find_accelerate},
    CheckpointKind{"tensorflow", find_tensorflow},
    CheckpointKind{"lightning", find_lightning},
    CheckpointKind{"torch", find_torch},
    CheckpointKind{"safetensors", find_safetensors},
};

}  // namespace

std::span<const CheckpointKind> checkpoint_kinds() {
  return kinds;
}

Judged judge_order(const ListedFolder& folder, std::string_view last,
                   bool (*is_before)(const FolderEntry&)) {
  const FolderEntry* at_last = folder.find(last);
  for (const FolderEntry& entry : folder.entries) {
    if (at_last && is_before(entry) && entry.changed_ns > at_last->changed_ns) {
      return unknown(entry.name + " is newer than " + std::string(last));
    }
  }
  return {};
}

Judged incomplete_of(const std::string& files, std::size_t there, std::size_t wanted) {
  return incomplete(files + " of " + std::to_string(there) + " of " + std::to_string(wanted) +
                    " ranks are there");
}

void add_entry(SaveCandidate& candidate, const FolderEntry& entry) {
  if (entry.is_folder) return;
  candidate.bytes += entry.bytes;
  candidate.changed_ns = std::max(candidate.changed_ns, entry.changed_ns);
}

SaveCandidate candidate_of(std::string_view kind, const ListedFolder& folder) {
  SaveCandidate candidate{kind, folder.path};
  candidate.step = step_named(folder.name());
  candidate.is_partial = folder.is_partial;
  for (const FolderEntry& entry : folder.entries) add_entry(candidate, entry);
  if (candidate.changed_ns == 0) candidate.changed_ns = folder.changed_ns;  // it has no files
  return candidate;
}

}  // namespace muster
