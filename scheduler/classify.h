// What ended an attempt: which rank failed first, of which class the failure is, and the sentence
// that says so. Evidence only; what follows from it is in restart_policy.h.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model/state.h"

namespace muster {

// Failed ranks that cannot be ordered: usually one, several when they ended within
// `together_window`. Ranks that muster had signalled before do not count. Earliest first.
struct FirstFailure {
  std::vector<RankExited> ranks;
};

FirstFailure first_failure(const Attempt& attempt);

// "rank 1 on local-1 was killed by SIGKILL", "rank 3 on h01 and rank 9 on h02 failed together: …"
std::string failure_sentence(const FirstFailure& failure);

// The attempt as a whole, once it is quiet. The rule that fits the exit may change the class.
AttemptCause cause_of(const Attempt& attempt, const StopBegun& why);

}  // namespace muster
