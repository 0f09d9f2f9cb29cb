#include <nlohmann/json.hpp>

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

// ---- torch, lightning

// What torch.save wrote, and Lightning's files, which are the same archive.

namespace {

// "epoch=3-step=400.ckpt"; "last.ckpt", "last-v1.ckpt": it does not say.
std::optional<std::int64_t> lightning_step(std::string_view name) {
  constexpr std::string_view mark = "step=";
  const std::size_t at = name.rfind(mark);
  if (at != name.npos) {
    const std::string_view rest = name.substr(at + mark.size());
    return last_number(rest.substr(0, rest.find_first_not_of("0123456789")));
  }
  if (name.starts_with("last")) return std::nullopt;
  return step_named(name.substr(0, name.rfind('.')));
}

void add_file(std::string_view kind, const ListedFolder& folder, const FolderEntry& entry,
              std::optional<std::int64_t> step, std::vector<SaveCandidate>& found) {
  SaveCandidate candidate{kind, folder.path_of(entry.name), step};
  add_entry(candidate, entry);
  candidate.judge = [path = candidate.path]() -> Judged {
    const TorchFile file = judge_torch_file(path);
    // Anything may be called ".bin" or ".pt".
    if (file.is_other) return unknown("it is no file of torch.save's");
    return file.judged;
  };
  found.push_back(std::move(candidate));
}

}  // namespace

bool find_lightning(const ListedFolder& folder, SaveSearch& search) {
  for (const FolderEntry& entry : folder.entries) {
    if (entry.is_folder || !entry.name.ends_with(".ckpt")) continue;
    add_file("lightning", folder, entry, lightning_step(entry.name), search.found);
  }
  return false;
}

bool find_torch(const ListedFolder& folder, SaveSearch& search) {
  const bool has_ckpt = search.settings.format == "torch";  // else they are Lightning's
  for (const FolderEntry& entry : folder.entries) {
    if (entry.is_folder || !has_torch_name(entry.name)) continue;
    if (is_part(entry.name) || is_companion(entry.name)) continue;
    if (entry.name.ends_with(".ckpt") && !has_ckpt) continue;
    const std::string_view stem = std::string_view(entry.name).substr(0, entry.name.rfind('.'));
    add_file("torch", folder, entry, step_named(stem), search.found);
  }
  return false;
}

// ---- safetensors

// Files of safetensors that no framework's folder is about: one each, or the parts of an index.

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

// ---- tensorflow

// TensorFlow: PREFIX.data-00000-of-00001 files, then PREFIX.index, which is renamed into place
// (tensor_bundle.cc).

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

// ---- ray

// Ray Train: checkpoint_manager_snapshot.json lists the folders beside it that are done; it is
// overwritten in place (train v2, ray 2.60).

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
