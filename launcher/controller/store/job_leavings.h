// What a job that has ended leaves on nodes, from its records. Pure.
#pragma once

#include <set>
#include <vector>

#include "scheduler/model/record.h"
#include "scheduler/model/result.h"

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

}  // namespace muster
