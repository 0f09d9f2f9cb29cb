// What torch.save wrote, and Lightning's files, which are the same archive.
#include "launcher/agent/foreign_checkpoints/kinds.h"

namespace muster {

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

}  // namespace muster
