// What a job or an attempt that has ended leaves on nodes, and whether they may forget it. Pure but
// for the journal, which is read.
#pragma once

#include <set>
#include <vector>

#include "launcher/controller/store/journal.h"

namespace muster {

struct JobLeavings {
  std::set<NodeId> nodes;  // that were given files of it
  // Nothing there is needed: the job is completed and all that its ranks wrote has been copied, or
  // its records were removed, so that it cannot be resumed any more.
  bool outputs_too = true;
};

JobLeavings leavings_of(const std::vector<Record>& records);

// Why a job without records cannot be resumed.
Error records_removed(const JobId& job);

// Its records stay, so that somebody may still fetch what could not be copied.
bool has_left_outputs(const std::vector<Record>& records);

// Nodes that the record gives to an attempt.
std::vector<NodeId> nodes_given(const Record& record);

// Processes of the attempt are held by the kernel there, also when it is over.
bool still_stops(const State& state, const NodeId& node, const JobId& job, AttemptId attempt);

// The journal knows the attempt and that it has ended, or continues without the node, and nothing
// of it is owed by the node. False for jobs that the journal does not know: another copy of the
// state directory may own them.
bool is_over(const State& state, const Journal& journal, const NodeId& node, const JobId& job,
             AttemptId attempt);

}  // namespace muster
