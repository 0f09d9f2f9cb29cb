// The journal and its indexes: one SQLite file, `$MUSTER_HOME/muster.db` (WAL, synchronous=FULL).
// One writer (the controller), any number of readers in other processes. Not thread safe.
//
// Schema version 16 (`PRAGMA user_version`):
//   record(seq INTEGER PRIMARY KEY, at_ms, job TEXT, node TEXT, kind TEXT, payload TEXT, keep TEXT,
//     keep_key TEXT)
//     the journal; job or node are '' where the record has none; payload is the record as JSON;
//     keep and keep_key say how long it is read back (scheduler/model/keep.h)
//   job(name TEXT PRIMARY KEY, submitted_ms, state, …)
//     one row a job, derived from its records in the same transaction
//   summary(job TEXT PRIMARY KEY, payload TEXT)
//     what is left of a job whose records were removed, as JSON (cli/job/report.h)
// Version 1 had no job.unclean, 7 no job.nodes_min; which version records have what since stands in
// schema.cpp, how older ones are read in launcher/wire/record_codec.cpp. An older file is
// migrated in place when the controller opens it; readers read it as it is. A newer one is refused
// by all.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/controller/store/journal.h"

namespace muster {

struct JobFilter {
  std::optional<int> limit = 50;  // newest first
  std::string state;              // exact, empty: any
  std::string compute;
  std::string experiment;
  std::string user;
  std::string node;  // ran on it in its newest attempt
  std::string tag;   // `key` or `key=value`
  std::optional<Time> since;
  bool archived = false;  // only archived ones
  bool include_archived = false;
};

class Store : public Journal {
 public:
  // Only the controller migrates. read_only: an absent file is an empty store. annotate: for what
  // people write about jobs; the file must be there and current.
  enum class Mode { read_only, read_write, annotate };

  // Errors name the file and the cure.
  static Result<std::unique_ptr<Store>> open(const std::filesystem::path& home, Mode mode);
  ~Store() override;

  Status append(const std::vector<Record>& records, const std::vector<JobRow>& rows) override;
  Result<std::vector<Record>> load_live() const override;
  Result<std::vector<Record>> records_of(const JobId& job) const override;
  // LinkUp records from the job's first record to its last: how its nodes were reached.
  Result<std::vector<Record>> links_during(const JobId& job) const;
  // What health checks found, meanwhile, of nodes that the job's records are about.
  Result<std::vector<Record>> faults_during(const JobId& job) const;
  Result<std::vector<JobRow>> jobs(const JobFilter& filter) const;
  Result<std::optional<JobRow>> job(const JobId& job) const override;
  // A unique job's full name from a prefix of it, for people who type.
  Result<std::vector<std::string>> names_starting_with(const std::string& prefix, int limit) const;
  // Only of a job that has ended.
  Status set_archived(const JobId& job, bool archived);
  // Jobs that ended before then, the oldest first, and whose records are all there.
  Result<std::vector<JobRow>> ended_before(Time then) const;
  // Puts the summary in the place of the records, if the job has not been resumed meanwhile: false.
  Result<bool> reduce(const JobId& job, Time ended_before, const std::string& summary);
  Result<std::optional<std::string>> summary_of(const JobId& job) const;
  // Acts while nobody can resume the job, if it ended before then; what `act` says, else false.
  Result<bool> while_ended(const JobId& job, Time before, const std::function<bool()>& act);
  // How nodes were reached before then, but for what a job that may run again is rebuilt from.
  Status forget_links(Time before);
  // Of any job: `append` leaves them alone. `change` gets those of now, which nobody else changes
  // meanwhile.
  using TagChange = std::function<Result<std::string>(const std::string&)>;
  Status change_tags(const JobId& job, const TagChange& change);

 private:
  struct Sqlite;
  // `change`: what to set and where, with the value and the job's name bound; whether a row fitted.
  Result<bool> annotate(const std::string& change, const JobId& job, const std::string& value);
  Status can_resume(const std::vector<Record>& records) const;
  explicit Store(std::unique_ptr<Sqlite> sqlite);
  std::unique_ptr<Sqlite> sqlite_;
};

}  // namespace muster
