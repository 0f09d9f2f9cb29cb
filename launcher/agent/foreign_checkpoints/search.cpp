#include "launcher/agent/foreign_checkpoints/search.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr int depth_limit = 4;

// Journals and terminals take no other names.
bool is_tellable(const std::string& path) {
  return to_utf8(path) == path &&
         std::ranges::none_of(path, [](unsigned char c) { return std::iscntrl(c) != 0; });
}

class Search {
 public:
  Search(const std::vector<std::string>& roots, const LookSettings& settings,
         std::chrono::milliseconds limit)
      : search_{Look(limit), settings} {
    for (std::string root : roots) {
      while (root.size() > 1 && root.back() == '/') root.pop_back();
      if (root.starts_with('/')) visit(root, depth_limit);
    }
  }

  bool is_cut() const { return search_.look.is_over(); }

  // The latest first.
  std::vector<SaveCandidate> take() {
    std::set<std::string> told;  // a file with a marker is that, whatever else it looks like
    std::erase_if(search_.found, [&](const SaveCandidate& one) {
      return !is_tellable(one.path) || !told.insert(one.path).second;
    });
    std::ranges::stable_sort(search_.found, std::greater<>{}, [](const SaveCandidate& candidate) {
      return std::pair(candidate.changed_ns, candidate.step.value_or(-1));
    });
    return std::move(search_.found);
  }

 private:
  void visit(const std::string& path, int depth) {
    if (!search_.known.insert(path).second) return;
    const auto folder = search_.look.open(path);
    if (!folder) return;
    const std::string& format = search_.settings.format;
    for (const CheckpointKind& kind : checkpoint_kinds()) {
      const bool is_asked = format == "auto" || format == kind.word;
      if (is_asked && kind.find(*folder, search_)) return;
    }
    if (depth == 0) return;
    for (const FolderEntry& entry : folder->entries) {
      const bool is_hidden = entry.name.starts_with('.');
      const bool is_quarantined = mentions(entry.name, ".incomplete-");
      if (entry.is_folder && !is_hidden && !is_quarantined) {
        visit(folder->path_of(entry.name), depth - 1);
      }
    }
  }

  SaveSearch search_;
};

constexpr std::chrono::seconds usual_look_limit{5};

std::vector<SaveCandidate> candidates_below(const std::vector<std::string>& roots,
                                            const LookSettings& settings) {
  return Search(roots, settings, usual_look_limit).take();
}

ForeignCheckpoint judged(const SaveCandidate& candidate) {
  Judged judgement = candidate.judge();
  // What is missing may be what was not seen.
  const bool is_lost = candidate.is_partial && judgement.state == SaveState::incomplete;
  if (is_lost) judgement = unknown("not all of it can be seen");
  return {std::string(candidate.kind), candidate.path,  candidate.step,      judgement.state,
          std::move(judgement.why),    candidate.bytes, candidate.changed_ns};
}

// A directory of checkpoints is none, whatever its name.
bool is_root(const std::string& path, const std::vector<std::string>& roots) {
  return std::ranges::any_of(
      roots, [&](const std::string& root) { return (root + "/").starts_with(path + "/"); });
}

// The first name of those that is free.
std::optional<std::string> renamed_aside(const std::string& path, std::int64_t attempt) {
  constexpr int names_most = 100;
  const std::string first = path + ".incomplete-" + std::to_string(attempt);
  for (int i = 1; i <= names_most; ++i) {
    const std::string aside = i == 1 ? first : first + "-" + std::to_string(i);
    const auto done =
        ::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, aside.c_str(), RENAME_NOREPLACE);
    if (done == 0) return aside;
    if (errno == EINVAL && ::access(aside.c_str(), F_OK) != 0) {  // not with this file system
      if (std::rename(path.c_str(), aside.c_str()) == 0) return aside;
    }
    if (errno != EEXIST && errno != EINVAL) break;
  }
  return std::nullopt;
}

// Also when it is looked at alone, just before something is done about it.
bool is_still_incomplete(const SaveCandidate& candidate, const LookSettings& settings) {
  if (judged(candidate).state != SaveState::incomplete) return false;
  SaveSearch again{Look(usual_look_limit), settings};
  const auto folder = again.look.open(candidate.path);
  if (!folder) return false;
  const bool holds_others = std::ranges::any_of(folder->entries, [](const FolderEntry& entry) {
    return entry.is_folder && number_between(entry.name, "checkpoint-").has_value();
  });
  find_huggingface(*folder, again);
  return !holds_others && again.found.size() == 1 &&
         judged(again.found.front()).state == SaveState::incomplete;
}

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

std::vector<ForeignCheckpoint> foreign_checkpoints(const std::vector<std::string>& roots,
                                                   const LookSettings& settings) {
  std::vector<ForeignCheckpoint> all;
  for (const SaveCandidate& candidate : candidates_below(roots, settings)) {
    all.push_back(judged(candidate));
  }
  return all;
}

std::optional<ForeignCheckpoint> newest_foreign_checkpoint(
    const std::vector<std::string>& roots, const LookSettings& settings,
    const std::function<bool(const ForeignCheckpoint&)>& will_do) {
  for (const SaveCandidate& candidate : candidates_below(roots, settings)) {
    ForeignCheckpoint checkpoint = judged(candidate);
    if (checkpoint.state != SaveState::complete) continue;
    if (!will_do || will_do(checkpoint)) return checkpoint;
  }
  return std::nullopt;
}

std::optional<ForeignCheckpoint> foreign_checkpoint_of(const std::vector<std::string>& roots,
                                                       const LookSettings& settings,
                                                       std::int64_t step) {
  std::optional<ForeignCheckpoint> found;
  for (const SaveCandidate& candidate : candidates_below(roots, settings)) {
    if (candidate.step != step) continue;
    ForeignCheckpoint checkpoint = judged(candidate);
    if (checkpoint.state != SaveState::complete) continue;
    if (found) return std::nullopt;
    found = std::move(checkpoint);
  }
  return found;
}

bool has_no_foreign_checkpoint(const std::vector<std::string>& roots, const LookSettings& settings,
                               std::chrono::milliseconds limit) {
  Search search(roots, settings, limit);
  return !search.is_cut() && search.take().empty();
}

std::vector<std::string> quarantine_incomplete(const std::vector<std::string>& roots,
                                               const LookSettings& settings, const MsSpan& span,
                                               std::int64_t attempt) {
  std::vector<std::string> renamed;
  for (const SaveCandidate& candidate : candidates_below(roots, settings)) {
    const std::int64_t changed_ms = candidate.changed_ns / 1'000'000;
    const bool is_own = changed_ms >= span.since && changed_ms <= span.until;
    if (candidate.kind != "huggingface" || !is_own || is_root(candidate.path, roots)) continue;
    if (!is_still_incomplete(candidate, settings)) continue;
    const auto aside = renamed_aside(candidate.path, attempt);
    if (aside) renamed.push_back(*aside);
  }
  return renamed;
}

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
