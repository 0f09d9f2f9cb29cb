// The checkpoints below some directories that programs which have never heard of muster wrote:
// PyTorch, DeepSpeed, Hugging Face and others (kinds.h). Reads files and may block on a slow file
// system: asked from a child process.
#pragma once

#include "launcher/agent/foreign_checkpoints/kinds.h"

namespace muster {

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
