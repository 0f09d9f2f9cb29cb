// Who failed first. The evidence of the cause comes before time: ranks that ended because a peer
// had gone are never named. Of the others the earliest is named if its interval lies before those
// of all others; else nobody is. A wrong name is worse than none. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/record.h"
#include "scheduler/state/state.h"

namespace muster {

// What a rank's end says about its cause: did it fail by itself, or because a peer had gone? Pure;
// reads the status, the last lines of output and what the agent found.

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

// A rank that failed by itself, or a node that was lost with its ranks.
struct Failure {
  std::optional<RankId> rank;  // absent: the node
  NodeId node;
  std::optional<ClockInterval> when;  // absent: at any time
  std::optional<std::int64_t> at_ms;
  std::string how;  // "was killed by SIGSEGV"
  Judgement judgement;
};

struct Margin {
  std::int64_t middle_us = 0;
  std::int64_t uncertainty_us = 0;
};

struct Attribution {
  std::vector<Failure> first;    // all that may have been it, earliest first; empty: none failed
  bool is_named = false;         // then `first` is the one
  std::optional<Margin> margin;  // to the next failure of any kind, where it is known
  std::size_t followed = 0;
};

Attribution attribute(const std::vector<Failure>& failures);

// What failed in an attempt, of what takes part. Of the ranks that muster told to stop before they
// ended, those that had said why they would. Where all others only lost a peer, a rank that ended
// with 0 is among them: it may have left too early. With a node: what failed on that one alone,
// whether it takes part or not.
std::vector<Failure> failures_of(const Attempt& attempt, bool is_mpi,
                                 std::optional<std::size_t> node_index = {});

// "rank 37 on h12", "h12"
std::string subject_text(const Failure& failure);
// "rank 37 on h12 was killed by SIGSEGV 212 ms (±0.4 ms) before any other; 63 followed"
// "cannot tell between rank 3 on h01 and rank 9 on h02: rank 3 was killed by SIGSEGV; …"
std::string attribution_sentence(const Attribution& attribution);

FirstFailure journal_form(const Attribution& attribution);

}  // namespace muster
