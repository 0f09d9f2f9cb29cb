// What other rules would have made of a recorded run: the journal again, with every failed rank's
// exit judged anew, through the same `cause_of` and `after_attempt` that decide live jobs. Pure:
// the patterns are asked by the function that the caller supplies (scheduler/restart/rule_book.h).
//
// The run goes on as it was recorded. After the first failure of a job that would have gone
// otherwise, what follows is what the rules say of a history that would not have been.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "scheduler/model/record.h"

namespace muster {

struct OtherPolicy {
  // The rules to try, put in the place of the recorded ones.
  std::function<void(MusterSettings&)> change;
  std::function<RuleVerdict(const MusterSettings&, const RankExited&)> judge;
};

// One attempt that ended because a rank failed.
struct PolicyStep {
  JobId job;
  AttemptId attempt;
  Time at;
  AttemptCause cause;    // under the other policy
  std::string recorded;  // "restarted on the same nodes after 5 s"; empty: nothing was decided yet
  std::string proposed;  // "ended with 1"
  std::string why;       // the proposed decision's own sentence
  bool differs = false;
  bool hypothetical = false;  // an earlier failure of this job would have gone otherwise
};

// `records`: of one job, as they were journaled.
std::vector<PolicyStep> replay_policy(const std::vector<Record>& records,
                                      const OtherPolicy& policy);

}  // namespace muster
