// What must always hold of records as they come, checked from the outside. Each violation is a
// sentence. Used by the tests.
//
// I1 a node has at most one attempt            I4 retries stay within their budget
// I2 no rank of an attempt runs after the next starts    I5 drained or unfit nodes get nothing new
// I3 a launch resumes from a sealed checkpoint that was seen, and goes back only with a reason
// I9 a job ends exactly once, and nothing is decided for it after that
// I12 members of an elastic attempt are enough nodes and keep their places; who joins was taken; a
//     node is given away when it is quiet; no other job's nodes change
// I13 a reset or reboot by muster: idle nodes alone, few at once, each step once for a fault
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

// Sees each record with the State before it.
class RecordAudit {
 public:
  void see(const State& before, const Record& record);
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct Launched {
    AttemptId attempt;
    std::set<NodeId> loud;  // nodes that have not been proven quiet
  };
  struct History {
    bool ended = true;
    std::vector<Launched> launched;
    std::set<std::int64_t> sealed_steps;
    std::optional<std::int64_t> resumed_step;
    AttemptId newest{-1};
    std::vector<std::pair<Time, bool>> retries;  // when the attempt ended; charged to `reschedule`
  };

  template <class T>
  void check(const State&, Time, const T&) {}
  void check(const State&, Time, const JobSubmitted& record);
  void check(const State&, Time, const ResumeRequested& record);
  void check(const State&, Time, const NodeChecked& record);
  void check(const State&, Time, const ProgressSeen& record);
  void check(const State&, Time, const NodeClean& record);
  void check(const State&, Time, const NodeFenced& record);
  void check(const State& before, Time at, const AttemptPlaced& record);
  void check(const State& before, Time at, const NodeReplaced& record);
  void check(const State& before, Time at, const SpareAdded& record);
  void check(const State& before, Time at, const LaunchBegun& record);
  void check(const State& before, Time at, const NodeAdded& record);
  void check(const State& before, Time at, const JoinBegun& record);
  void check(const State& before, Time, const MembersChanged& record);
  void check(const State& before, Time, const NodeLeaving& record);
  void check(const State& before, Time, const NodeReleased& record);
  void check(const State& before, Time, const RetryScheduled& record);
  void check(const State&, Time, const JobEnded& record);
  void check(const State& before, Time, const RemedyBegun& record);

  const Attempt* elastic(const State& before, const JobId& job, AttemptId attempt);
  void check_passed(const JobId& job, const AttemptNode& node);
  void check_resume_point(const State& before, History& history, const LaunchBegun& record);
  void check_free(const State& before, Time at, const JobId& job, const NodeId& node);
  void check_usable(const State& before, Time at, const JobId& job, const NodeId& node);
  void quieten(const JobId& job, AttemptId attempt, const NodeId& node);
  void see_sealed(const JobId& job, const std::optional<CheckpointRef>& checkpoint);
  void fail(const JobId& job, const std::string& what);

  std::map<JobId, History> jobs_;
  std::set<std::string> remedies_;  // steps that were begun, by node, fault and its time
  std::vector<std::string> violations_;
};

std::vector<std::string> violations(const std::vector<Record>& journal);

}  // namespace muster
