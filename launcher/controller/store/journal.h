// What the controller's loop writes to and is rebuilt from, with a row about each job. The store
// keeps it in a file (store.h), a simulation in memory, where it can fail on request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/record.h"
#include "scheduler/model/result.h"
#include "scheduler/state/state.h"

namespace muster {

// One line of `muster list`: a job as the store knows it.
struct JobRow {
  std::string name;
  std::string display_name;
  std::string experiment;
  std::string compute;
  std::string user;
  std::string state;       // Azure's job state names
  std::string reason;      // why it waits, or why it ended
  std::int64_t order = 0;  // submission order
  Time submitted_at;
  std::optional<Time> started_at;  // first attempt running
  std::optional<Time> ended_at;
  std::optional<int> exit_code;
  std::int64_t attempts = 0;
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> checkpoint_step;
  std::string nodes;  // of the newest attempt, joined by ','
  int nodes_min = 0;  // so many it may have; 0: submitted to an older muster
  int nodes_max = 0;
  std::string tags;  // JSON object
  bool archived = false;
  bool unclean = false;  // it has ended and holds nodes with processes that do not die
};

class Journal {
 public:
  virtual ~Journal() = default;

  // All or nothing, durable when it returns. `rows` replace the derived rows of their jobs, but for
  // the tags and the archive mark of a job that is there already.
  virtual Status append(const std::vector<Record>& records, const std::vector<JobRow>& rows) = 0;

  // What State is rebuilt from, in journal order: the records of jobs that have not ended or are
  // unclean, everything said about nodes since the first of these jobs came, and the newest record
  // of each kind about each node before.
  virtual Result<std::vector<Record>> load_live() const = 0;
  virtual Result<std::vector<Record>> records_of(const JobId& job) const = 0;
  virtual Result<std::optional<JobRow>> job(const JobId& job) const = 0;
};

}  // namespace muster
