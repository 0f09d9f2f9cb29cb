// The journal and its indexes: one SQLite file, `$MUSTER_HOME/muster.db` (WAL, synchronous=FULL).
// One writer (the controller), any number of readers in other processes. Not thread safe.
//
// Schema version 2 (`PRAGMA user_version`):
//   record(seq INTEGER PRIMARY KEY, at_ms, job TEXT, node TEXT, kind TEXT, payload TEXT)
//     the journal; job or node are '' where the record has none; payload is the record as JSON
//   job(name TEXT PRIMARY KEY, submitted_ms, state, …)
//     one row a job, derived from its records in the same transaction
// Version 1 had no job.unclean. An older file is migrated in place when the controller opens it;
// readers read it as it is. A newer one is refused by all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/record.h"
#include "scheduler/model/result.h"

namespace muster {

// One line of `muster list`: a job as the store knows it.
struct JobRow {
  std::string name;
  std::string display_name;
  std::string experiment;
  std::string compute;
  std::string user;
  std::string state;               // Azure's job state names
  std::string reason;              // why it waits, or why it ended
  std::int64_t order = 0;          // submission order
  Time submitted_at;
  std::optional<Time> started_at;  // first attempt running
  std::optional<Time> ended_at;
  std::optional<int> exit_code;
  std::int64_t attempts = 0;
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> checkpoint_step;
  std::string nodes;               // of the newest attempt, joined by ','
  std::string tags;                // JSON object
  bool archived = false;
  bool unclean = false;            // it has ended and holds nodes with processes that do not die
};

struct JobFilter {
  std::optional<int> limit = 50;  // newest first
  std::string state;              // exact, empty: any
  std::string compute;
  std::string experiment;
  std::string user;
  std::string node;               // ran on it in its newest attempt
  std::string tag;                // `key` or `key=value`
  std::optional<Time> since;
  bool archived = false;          // only archived ones
  bool include_archived = false;
};

class Store {
 public:
  // Only the controller migrates. read_only: an absent file is an empty store. annotate: for what
  // people write about jobs; the file must be there and current.
  enum class Mode { read_only, read_write, annotate };

  // Errors name the file and the cure.
  static Result<std::unique_ptr<Store>> open(const std::filesystem::path& home, Mode mode);
  ~Store();

  // All or nothing, durable when it returns. `rows` replace the derived rows of their jobs, but for
  // the tags and the archive mark of a job that is there already.
  Status append(const std::vector<Record>& records, const std::vector<JobRow>& rows);

  // What State is rebuilt from, in journal order: the records of jobs that have not ended or are
  // unclean, everything said about nodes since the first of these jobs came, and the newest record
  // of each kind about each node before.
  Result<std::vector<Record>> load_live() const;
  Result<std::vector<Record>> records_of(const JobId& job) const;
  Result<std::vector<JobRow>> jobs(const JobFilter& filter) const;
  Result<std::optional<JobRow>> job(const JobId& job) const;
  // A unique job's full name from a prefix of it, for people who type.
  Result<std::vector<std::string>> names_starting_with(const std::string& prefix, int limit) const;
  // Only of a job that has ended.
  Status set_archived(const JobId& job, bool archived);
  // Of any job: `append` leaves them alone.
  Status set_tags(const JobId& job, const std::string& tags);

 private:
  struct Sqlite;
  // `change`: what to set and where, with the value and the job's name bound; whether a row fitted.
  Result<bool> annotate(const std::string& change, const JobId& job, const std::string& value);
  explicit Store(std::unique_ptr<Sqlite> sqlite);
  std::unique_ptr<Sqlite> sqlite_;
};

}  // namespace muster
