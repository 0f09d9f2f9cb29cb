// The store's derived table, kept in step with State: each batch of records touches some jobs, and
// their rows are made anew. Rows of live and of unclean jobs are remembered, so that a row survives
// its job's end.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "launcher/controller/store/journal.h"
#include "scheduler/state/state.h"

namespace muster {

class JobRows {
 public:
  // Call after each `apply`, with the record and the state it led to.
  void note(const Record& record, const State& state);
  // Between two records of progress, which come more seldom.
  void note_step(const JobId& job, std::int64_t step);
  // Rows changed since the last call; those of ended and clean jobs are forgotten here.
  std::vector<JobRow> take_changed();
  const JobRow* find(const JobId& job) const;  // of a job that has not ended; else null
  void restore(const JobRow& row);  // of a finished job that is about to be resumed
  void clear();

 private:
  void note_unclean(const State& state);

  std::map<JobId, JobRow> rows_;
  std::set<JobId> changed_;
};

}  // namespace muster
