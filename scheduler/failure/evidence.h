// What a rank's end says about its cause: did it fail by itself, or because a peer had gone? Pure;
// reads the status, the last lines of output and what the agent found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/record.h"

namespace muster {

// consequence: it ended because others had; it is never named.
// unclear:     it may be either: never named, but nobody is named whom it may have preceded.
// silent:      it failed and does not say why.
// proven:      a signal of its own, words of its own, or the kernel's.
enum class Standing { consequence, unclear, silent, proven };

struct Judgement {
  Standing standing = Standing::silent;
  // It said what went wrong and exited: interpreters take seconds from the one to the other, while
  // a signal ends a process at once.
  bool exits_late = false;
  std::vector<std::string> evidence;  // sentences without a full stop, the decisive one first
};

// The rule that fits its words takes them for an echo of another's failure.
bool is_secondary(const RankExited& exit);

// Of a rank that was told to stop. One that had said before what went wrong was on its way out, and
// is judged by that; any other did not fail.
std::optional<Judgement> judge_stopped(const RankExited& exit);

// By its own doing, as far as its end and its words tell: one that was stopped counts when it had
// said why it would end.
bool counts_as_failure(const RankExited& exit);

// `is_mpi`: mpirun ends the ranks that are left with SIGTERM. `has_peers`: false for a job of one
// rank, which is nobody's consequence.
Judgement judge(const RankExited& exit, bool is_mpi, bool has_peers);

}  // namespace muster
