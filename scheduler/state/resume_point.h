// From which sealed checkpoint an attempt goes on. Directory names follow `s<step>-g<generation>`;
// other names have no known generation and are taken at their word.
#pragma once

#include <optional>
#include <string>

#include "scheduler/state/state.h"

namespace muster {

struct ResumePoint {
  std::optional<CheckpointRef> from;  // absent: a fresh start
  std::string why;
  bool went_back = false;  // a newer checkpoint was known
};

ResumePoint choose_resume_point(const Job& job, const Attempt& attempt);

std::optional<std::int64_t> generation_of(const std::string& directory);
std::optional<std::int64_t> step_of(const std::string& directory);

// The lineage rule: a checkpoint counts only if every later launch resumed at its step or beyond,
// so that late writes of an attempt that was given up never win.
bool is_on_lineage(const Job& job, const CheckpointRef& checkpoint);

// Notes a launch at `step` (0: from the beginning). Forks rise in epoch and step: a later launch at
// a lower step makes earlier ones redundant.
void add_fork(std::vector<Fork>& forks, Epoch epoch, std::int64_t step);

// With `resume.from: none`: what the first gate found is the work of others and never resumed from.
bool is_foreign(const Job& job, const CheckpointRef& checkpoint);

// Of muster-train's: the higher step, then the higher generation; of another program's: the later
// one, and any of muster-train's before those.
bool is_newer(const CheckpointRef& a, const CheckpointRef& b);
// Whether an attempt that went on from `base` (nothing: from the beginning) has saved more.
bool is_beyond(const std::optional<CheckpointRef>& newest,
               const std::optional<CheckpointRef>& base);
// The step of what an attempt went on from; 0: from the beginning, or it is not known.
std::int64_t base_step(const std::optional<CheckpointRef>& resumed_from);
bool is_same(const CheckpointRef& a, const CheckpointRef& b);
// "step 400", or the name of what does not say its step.
std::string step_text(const CheckpointRef& checkpoint);
// Keeps the newer one.
void keep_newer(std::optional<CheckpointRef>& best, const std::optional<CheckpointRef>& other);

}  // namespace muster
