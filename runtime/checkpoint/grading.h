// What is decided about a committed checkpoint later on: grades, release from quarantine, pins.
//
// Grades are given by the newest generation of training, which knows what came after the save;
// releases and pins are an operator's. A grade is never lowered here, and none lifts a quarantine:
// quarantine_checkpoint is in resume_log.h. Every function writes durably before it returns, and
// returns a sentence when it refuses. `path` is a checkpoint's directory. No state, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/resume_log.h"

namespace muster {

// Why a grade is deserved, and who says so.
struct GradingEvidence {
  std::uint64_t at_step = 0;     // how far training has come
  std::uint64_t generation = 0;  // of the caller; an older one than the newest is refused
  std::vector<std::string> sentences;
};

// SANE: every value of the state is finite, the hashes that the ranks took of their weights agree.
// Both are looked up in the manifest; anything else that the caller requires it has checked before.
Checked<NoValue> mark_sane(const std::string& path, const GradingEvidence& evidence);

// CERTIFIED: sane, and training went on long enough after it without a doubt. How long is the
// caller's rule; `evidence.at_step` must lie behind the checkpoint's own step.
Checked<NoValue> certify(const std::string& path, const GradingEvidence& evidence);

// Lifts a quarantine: the log first, then the certificate, which is COMMITTED again.
Checked<NoValue> release_checkpoint(const std::string& path, const std::string& reason);

// What is known of the checkpoint at `path`, as standing_in() has it.
CheckpointStanding standing_of_checkpoint(const std::string& path);

// While the file pin.json exists in it, whatever it says, retention spares a checkpoint.
Checked<NoValue> pin_checkpoint(const std::string& path, const std::string& reason);
Checked<NoValue> unpin_checkpoint(const std::string& path);
bool is_pinned(const std::string& path);
// Why it was; empty: nobody said it, or it cannot be read.
std::string pin_reason(const std::string& path);

}  // namespace muster
