// A job in one value, from its records: what `status` prints and what the JSON report is made of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/state/membership.h"

namespace muster {

struct AttemptSummary {
  AttemptId number;
  std::vector<NodeId> nodes;             // replacements included, and who came later
  std::vector<NodeId> spares;            // still held at its end
  std::optional<AttemptCause> cause;     // when it ended
  std::optional<std::string> abandoned;  // why it was given up before it started
  std::vector<int> processes;  // as LaunchBegun has it, and those of nodes that came later
  // Of an elastic attempt: the nodes that train together, or did last; empty: not elastic, or not
  // launched.
  std::vector<NodeId> members;
  std::int64_t members_epoch = 0;
  std::optional<std::int64_t> resumed_from_step;
  std::optional<std::int64_t> last_step;
  std::optional<CheckpointRef> newest_checkpoint;
  std::vector<std::string> preparing;  // "h02: image 1.2 of 7.9 GB", of nodes that tell it now
  std::optional<StallSeen> stall;  // what is wrong with its pace, or was when it ended
  Time placed;
  std::optional<Time> started;  // every rank was running
  std::optional<Time> ended;
  std::string next;  // what followed, and by which rule
};

struct JobSummary {
  JobId job;
  std::string state = "NotStarted";  // see state/lookup.h; Completed, Failed or Canceled at the end
  std::string user;
  std::string target;
  std::optional<NodeRange> nodes;  // of an elastic job
  std::vector<AttemptSummary> attempts;
  std::optional<int> exit_code;             // when it has ended
  std::string reason;                       // why it waits, or how it ended
  std::optional<CheckpointRef> checkpoint;  // the newest sealed one
  std::optional<std::int64_t> last_step;
  Time submitted;
  std::optional<Time> started;  // of the first attempt
  std::optional<Time> ended;
};

// `records`: one job's, in order; records about nodes may be among them.
JobSummary summarize(const std::vector<Record>& records);

}  // namespace muster
