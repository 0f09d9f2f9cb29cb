// The checkpoints below some directories that programs which have never heard of muster wrote:
// PyTorch, DeepSpeed, Hugging Face and others. Reads files and may block on a slow file system:
// asked from a child process.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/foreign_checkpoints/files.h"

namespace muster {

// A checkpoint of some kind. Each kind was judged over thousands of real saves that were cut at
// random moments; the truth was what the framework itself loads.
struct SaveCandidate {
  std::string_view kind;
  std::string path;                       // a file or a folder
  std::optional<std::int64_t> step = {};  // as its name has it
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;         // the latest of its files
  bool is_partial = false;             // it may hold more than was seen
  std::function<Judged()> judge = {};  // reads files
};

struct LookSettings {
  std::string format = "auto";  // a kind, or auto: all
  std::string marker = {};      // a pattern of names of the file that says: this folder is complete
  int world = 0;                // ranks of the attempt that may have written; 0: not known
};

struct SaveSearch {
  Look look;
  const LookSettings& settings;
  std::vector<SaveCandidate> found = {};
  std::set<std::string> known = {};  // folders that are not looked into, or not again
};

// Adds what the folder is, or what lies in it. True: the folder is that, and nothing in it is a
// checkpoint of another kind.
using FindCheckpoints = bool(const ListedFolder& folder, SaveSearch& search);

struct CheckpointKind {
  std::string_view word;  // checkpoint.format
  FindCheckpoints* find;
};

// In the order in which they are asked.
std::span<const CheckpointKind> checkpoint_kinds();

// Of files of a folder: their bytes together, their latest change.
SaveCandidate candidate_of(std::string_view kind, const ListedFolder& folder);
void add_entry(SaveCandidate& candidate, const FolderEntry& entry);

FindCheckpoints find_marked, find_ray, find_megatron, find_huggingface, find_deepspeed, find_dcp,
    find_accelerate, find_tensorflow, find_lightning, find_torch, find_safetensors;

// Of one that is written over another the last file is still the other's: unknown while any that is
// written before is newer.
Judged judge_order(const ListedFolder& folder, std::string_view last,
                   bool (*is_before)(const FolderEntry&));
// "*_optim_states.pt of 3 of 4 ranks are there"
Judged incomplete_of(const std::string& files, std::size_t there, std::size_t wanted);

// Shared by kinds that hold parts of others.
Judged judge_dcp(const ListedFolder& folder, int world);
bool is_dcp(const ListedFolder& folder);
// has_zero: another step beside it shows ZeRO.
Judged judge_deepspeed(const ListedFolder& step_folder, std::size_t widest, bool has_zero = false);
std::size_t deepspeed_width(const ListedFolder& step_folder);

struct ForeignCheckpoint {
  std::string kind;
  std::string path;
  std::optional<std::int64_t> step = {};
  SaveState state = SaveState::unknown;
  std::string why = {};  // it is not complete
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;
};

// All, the latest first.
std::vector<ForeignCheckpoint> foreign_checkpoints(const std::vector<std::string>& roots,
                                                   const LookSettings& settings);

// The latest complete one that will do; what is newer and is not complete is passed over.
std::optional<ForeignCheckpoint> newest_foreign_checkpoint(
    const std::vector<std::string>& roots, const LookSettings& settings,
    const std::function<bool(const ForeignCheckpoint&)>& will_do = {});

// The only complete one of that step; nothing where there are several.
std::optional<ForeignCheckpoint> foreign_checkpoint_of(const std::vector<std::string>& roots,
                                                       const LookSettings& settings,
                                                       std::int64_t step);

// Whether there is nothing that could be one. Opens no file; false also when time is up.
bool has_no_foreign_checkpoint(const std::vector<std::string>& roots, const LookSettings& settings,
                               std::chrono::milliseconds limit);

struct MsSpan {
  std::int64_t since = 0;  // since 1970
  std::int64_t until = 0;
};

// Renames incomplete checkpoints on which a later start of their own program would die, those that
// were last written in `span`, to NAME.incomplete-<attempt>; nothing is removed. What was renamed.
std::vector<std::string> quarantine_incomplete(const std::vector<std::string>& roots,
                                               const LookSettings& settings, const MsSpan& span,
                                               std::int64_t attempt);

}  // namespace muster
