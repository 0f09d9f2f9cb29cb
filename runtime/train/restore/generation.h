// Which generation writes: taken by the rank that leads, and in the log before anything else of it.
//
// It is the launcher's fencing epoch where there is one, raised above every generation that has
// already used the directory. In an elastic run every epoch of the members takes one of its own, so
// that a leader which was dropped and does not know it finds itself replaced. Writers are in order
// by (MUSTER_EPOCH, epoch of the members): a process whose own run has come as far, or further, is
// a leftover and must not write. Without MUSTER_EPOCH the epochs of an earlier attempt look like
// those of this one; there, what its members knew when they came is of an earlier attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/communicator/communicator.h"
#include "runtime/train/restore/restore.h"

namespace muster {

// The highest generation of which any rank's node, or the checkpoint that is continued, knows: the
// next one must stand above all, or its checkpoints would lie off their own lineage. Collective.
std::uint64_t highest_generation(const std::string& root, const std::optional<Restored>& restored,
                                 Communicator& ranks);

struct KnownGenerations {
  std::uint64_t to_ranks = 0;  // the highest of which a rank knew without looking now
  std::uint64_t highest = 0;   // of all
};

// The number of the generation that `line` begins; a fault when it comes too late.
Checked<std::uint64_t> choose_generation(const GenerationLine& line, const KnownGenerations& known,
                                         const ResumeLog& log);

// Chooses the number for `draft`, above `known_to_ranks` and all that `root` shows, and writes the
// line durably. `root` is created. Any thread.
Checked<std::uint64_t> take_generation(const std::string& root, const GenerationLine& draft,
                                       std::uint64_t known_to_ranks);

}  // namespace muster
