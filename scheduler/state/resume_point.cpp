#include "scheduler/state/resume_point.h"

#include <algorithm>

#include "scheduler/state/sentences.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

std::string base_name(std::string path) {
  while (!path.empty() && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

bool counts(const Job& job, const std::optional<CheckpointRef>& checkpoint) {
  return checkpoint && is_on_lineage(job, *checkpoint) && !is_foreign(job, *checkpoint);
}

struct Gate {
  std::optional<CheckpointRef> newest;
  std::optional<CheckpointRef> newest_certified;
  bool every_node_reported = true;
  bool any_node_has_some = false;  // of this history or another
};

Gate gate_result(const Job& job, const Attempt& attempt) {
  Gate gate;
  for (const AttemptNode& node : attempt.nodes) {
    const bool found = node.checked && counts(job, node.checked->newest_checkpoint);
    if (found) keep_newer(gate.newest, node.checked->newest_checkpoint);
    gate.every_node_reported = gate.every_node_reported && found;
    if (!node.checked) continue;
    const auto& certified = node.checked->newest_certified;
    if (counts(job, certified)) keep_newer(gate.newest_certified, certified);
    gate.any_node_has_some |= node.checked->newest_checkpoint || certified;
  }
  return gate;
}

// Of no directory when no node has that step; step 0 is the beginning, which needs none.
ResumePoint asked_step(const Job& job, const Attempt& attempt) {
  CheckpointRef from{*job.resume_step, ""};
  std::optional<CheckpointRef> known = gate_result(job, attempt).newest;
  keep_newer(known, job.newest_checkpoint);
  std::optional<CheckpointRef> asked;
  for (const AttemptNode& node : attempt.nodes) {
    if (node.checked) keep_newer(asked, node.checked->asked_checkpoint);
  }
  if (asked && asked->step == from.step) from = *asked;
  return {from, step_text(from) + " was requested", known && known->step > from.step};
}

ResumePoint first_attempt_from_path(const Job& job) {
  const std::string& path = job.spec.muster.resume_path;
  return {CheckpointRef{step_of(path).value_or(CheckpointRef::no_step), path},
          "muster.resume.from names " + path, false};
}

// All ranks are told the path of one checkpoint: where nodes do not share it, the others fail.
std::string who_lacks(const Attempt& attempt, const CheckpointRef& checkpoint) {
  const auto has_it = [&](const AttemptNode& node) {
    return node.checked && node.checked->newest_checkpoint &&
           is_same(*node.checked->newest_checkpoint, checkpoint);
  };
  const auto without = std::ranges::find_if_not(attempt.nodes, has_it);
  if (without == attempt.nodes.end() || std::ranges::none_of(attempt.nodes, has_it)) return {};
  return ", which " + without->id.value +
         " does not see: checkpoints belong in a directory that " + "all nodes share";
}

ResumePoint newest_known(const Job& job, const Attempt& attempt) {
  const Gate gate = gate_result(job, attempt);
  std::optional<CheckpointRef> known = job.newest_checkpoint;
  // It may have been removed or renamed since; what the nodes see now counts.
  if (known && known->is_foreign()) known.reset();
  if (gate.newest && known && gate.every_node_reported && gate.newest->step < known->step) {
    return {gate.newest,
            step_text(*gate.newest) + " is the newest on the nodes; " + step_text(*known) + " in " +
                known->directory + " is gone, damaged or quarantined",
            true};
  }
  std::optional<CheckpointRef> best = gate.newest;
  if (counts(job, known)) keep_newer(best, known);
  if (!best) return {std::nullopt, "no committed checkpoint", false};
  if (best->is_foreign()) {
    return {best, "newest complete checkpoint (" + best->kind + ")" + who_lacks(attempt, *best),
            false};
  }
  return {best, "newest committed checkpoint", false};
}

// What the nodes say now counts: one that was certified may be quarantined since. Only when they
// all have nothing, what is on record.
std::optional<CheckpointRef> newest_certified(const Job& job, const Gate& gate) {
  if (gate.any_node_has_some || !counts(job, job.newest_certified)) return gate.newest_certified;
  return job.newest_certified;
}

// Without one the job starts anew: what else there is has been saved since nobody knows when it
// went wrong, and a resume would carry that on.
ResumePoint only_certified(const Job& job, const Attempt& attempt, const std::string& because) {
  const Gate gate = gate_result(job, attempt);
  std::optional<CheckpointRef> newest = gate.newest;
  if (counts(job, job.newest_checkpoint)) keep_newer(newest, job.newest_checkpoint);
  const std::optional<CheckpointRef> certified = newest_certified(job, gate);
  if (!certified && job.spec.muster.resume_from == ResumeFrom::path) {
    ResumePoint named = first_attempt_from_path(job);
    named.went_back = newest && newest->step > named.from->step;
    named.why += ", and no other is certified: " + because;
    return named;
  }
  if (!certified && !newest) return {std::nullopt, "no committed checkpoint", false};
  ResumePoint point{certified, certified ? "newest certified checkpoint: " : "none is certified: ",
                    newest && (!certified || newest->step > certified->step)};
  point.why += because;
  if (point.went_back) point.why += "; " + step_text(*newest) + " is not certified";
  return point;
}

// Of the latest launch: only one that was launched can have saved wrong values.
const AttemptCause* end_of_latest_launch(const Job& job) {
  if (job.forks.empty()) return nullptr;
  const Epoch latest = job.forks.back().epoch;
  const auto past = std::find_if(job.past.rbegin(), job.past.rend(), [&](const PastAttempt& one) {
    return epoch_of(one.id) == latest;
  });
  return past == job.past.rend() ? nullptr : &past->cause;
}

// Why only a certified checkpoint will do; nothing: any sealed one will.
std::optional<std::string> wants_certified(const Job& job) {
  if (job.certified_because) return job.certified_because;
  const AttemptCause* end = end_of_latest_launch(job);
  if (end && casts_doubt(*end)) return doubt_text(*end);
  if (job.spec.muster.resume_from != ResumeFrom::certified) return std::nullopt;
  return "muster.resume.from names it";
}

}  // namespace

std::optional<std::int64_t> generation_of(const std::string& directory) {
  const std::string name = base_name(directory);
  const std::size_t dash = name.rfind("-g");
  if (dash == std::string::npos) return std::nullopt;
  return read_integer(std::string_view(name).substr(dash + 2));
}

std::optional<std::int64_t> step_of(const std::string& directory) {
  const std::string name = base_name(directory);
  const std::size_t dash = name.rfind("-g");
  if (name.empty() || name[0] != 's' || dash == std::string::npos) return std::nullopt;
  return read_integer(std::string_view(name).substr(1, dash - 1));
}

bool is_same(const CheckpointRef& a, const CheckpointRef& b) {
  return a.step == b.step && a.directory == b.directory && a.changed_ms == b.changed_ms;
}

bool is_on_lineage(const Job& job, const CheckpointRef& checkpoint) {
  if (checkpoint.is_foreign()) return true;
  const auto generation = generation_of(checkpoint.directory);
  if (!generation) return true;
  return std::ranges::none_of(job.forks, [&](const Fork& fork) {
    return fork.epoch.value > *generation && checkpoint.step > fork.step;
  });
}

void add_fork(std::vector<Fork>& forks, Epoch epoch, std::int64_t step) {
  while (!forks.empty() && forks.back().step >= step) forks.pop_back();
  forks.push_back({epoch, step});
}

bool is_foreign(const Job& job, const CheckpointRef& checkpoint) {
  if (job.spec.muster.resume_from != ResumeFrom::none) return false;
  return std::ranges::any_of(
      job.found, [&](const CheckpointRef& found) { return is_same(found, checkpoint); });
}

bool is_newer(const CheckpointRef& a, const CheckpointRef& b) {
  if (a.is_foreign() != b.is_foreign()) return b.is_foreign();
  const auto key = [](const CheckpointRef& ref) {
    if (ref.is_foreign()) return std::pair{ref.changed_ms, ref.step};
    return std::pair{ref.step, generation_of(ref.directory).value_or(-1)};
  };
  return key(a) > key(b);
}

bool is_beyond(const std::optional<CheckpointRef>& newest,
               const std::optional<CheckpointRef>& base) {
  if (!newest || !base || newest->is_foreign() != base->is_foreign()) return newest.has_value();
  const bool have_steps =
      newest->step != CheckpointRef::no_step && base->step != CheckpointRef::no_step;
  return have_steps ? newest->step > base->step : is_newer(*newest, *base);
}

std::int64_t base_step(const std::optional<CheckpointRef>& resumed_from) {
  return resumed_from ? std::max<std::int64_t>(0, resumed_from->step) : 0;
}

std::string step_text(const CheckpointRef& checkpoint) {
  if (checkpoint.step == CheckpointRef::no_step) return base_name(checkpoint.directory);
  return "step " + std::to_string(checkpoint.step);
}

void keep_newer(std::optional<CheckpointRef>& best, const std::optional<CheckpointRef>& other) {
  if (other && (!best || is_newer(*other, *best))) best = other;
}

ResumePoint choose_resume_point(const Job& job, const Attempt& attempt) {
  if (job.resume_step) return asked_step(job, attempt);
  const ResumeFrom setting = job.spec.muster.resume_from;
  const bool first = job.forks.empty() && !job.newest_checkpoint;
  if (first && setting == ResumeFrom::path) return first_attempt_from_path(job);
  if (first && setting == ResumeFrom::none) {
    return {std::nullopt, "muster.resume.from is none", false};
  }
  if (const auto because = wants_certified(job)) return only_certified(job, attempt, *because);
  return newest_known(job, attempt);
}

}  // namespace muster
