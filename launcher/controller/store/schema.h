// The file of the job store, `$MUSTER_HOME/muster.db`: its tables, how an older one becomes a
// current one, and how it is told from one that is not the store of the jobs beside it. Errors name
// the file and the cure.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "scheduler/model/result.h"

namespace muster {

// SQLite behind RAII: a connection, a statement bound and stepped in one expression. Errors come
// back as Status sentences that name the file. Used by the store only.
class Connection {
 public:
  Connection() = default;
  ~Connection() { sqlite3_close(handle_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Status open(const std::string& path, int flags);
  // To read a file that nobody can change, such as one on a read-only file system: without locks
  // and without the files that a reader would make beside it.
  Status open_unchanging(const std::string& path);
  Status run(const char* sql);
  // The failure of the last call on this connection, as a sentence.
  Error failure(std::string_view what) const;
  sqlite3* handle() const { return handle_; }
  const std::string& path() const { return path_; }

 private:
  Status open_as(const std::string& name, int flags);
  sqlite3* handle_ = nullptr;
  std::string path_;
};

// A change that is made whole, or not at all where it ends without a commit.
class Transaction {
 public:
  explicit Transaction(Connection& connection)
      : connection_(connection), begun_(connection.run("BEGIN IMMEDIATE")) {}
  ~Transaction() {
    if (begun_ && !is_over_)
      sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  const Status& begun() const { return begun_; }
  Status commit() {
    Status done = connection_.run("COMMIT");
    is_over_ = static_cast<bool>(done);
    return done;
  }

 private:
  Connection& connection_;
  Status begun_;
  bool is_over_ = false;
};

class Statement {
 public:
  Statement(const Connection& connection, const std::string& sql);
  ~Statement() { sqlite3_finalize(handle_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(const std::string& value);
  Statement& bind(std::int64_t value);
  Statement& bind(std::optional<std::int64_t> value);

  // SQLITE_ROW, SQLITE_DONE or an error code.
  int step() { return handle_ == nullptr ? SQLITE_ERROR : sqlite3_step(handle_); }
  void reset();

  std::string text(int column) const;
  std::int64_t number(int column) const { return sqlite3_column_int64(handle_, column); }
  std::optional<std::int64_t> maybe_number(int column) const;

 private:
  sqlite3_stmt* handle_ = nullptr;
  int next_ = 1;
};

inline constexpr int store_version = 16;

// Since when records say `keep` and `keep_key` (scheduler/model/keep.h). What the two are of a
// record that says neither, as columns of a SELECT.
inline constexpr int keep_version = 15;
inline constexpr const char* keep_by_kind =
    "CASE WHEN job <> '' THEN 'with_job' WHEN kind = 'node_faults_seen' THEN 'while_faulty'"
    " WHEN kind IN ('node_faulted', 'remedy_begun', 'remedy_over', 'breaker_opened')"
    " THEN 'month' ELSE 'newest' END";
inline constexpr const char* keep_key_by_kind =
    "CASE WHEN kind IN ('breaker_opened', 'breaker_reset')"
    " THEN ifnull(json_extract(payload, '$.target'), '')"
    " WHEN kind = 'node_drain_set' THEN iif(json_extract(payload, '$.drained'), '1', '0')"
    " WHEN kind <> 'node_faults_seen' OR json_array_length(payload, '$.faults') = 0 THEN ''"
    " WHEN EXISTS (SELECT 1 FROM json_each(payload, '$.faults') f"
    " WHERE json_extract(f.value, '$.remedy') = 'warn'"
    " AND json_extract(f.value, '$.on_recurrence') IS NOT NULL"
    " AND ifnull(json_extract(f.value, '$.enforced'), 1)"
    " AND json_extract(f.value, '$.code') <> '') THEN 'recurs' ELSE 'stands' END";

// Creates or migrates, all steps in one transaction; refuses a file of a newer version, naming
// both.
Status prepare_schema(Connection& connection);
// The version of the file, 0: it has no tables yet. The same refusal, nothing written.
Result<int> schema_version(Connection& connection);

// For the controller alone: with its tables, of the current version, for its owner's eyes. A file
// that is not there appears with its tables, so an empty one is the work of somebody else: beside
// jobs it is refused, and so is an absent one beside jobs that ran.
Status open_store_file(Connection& connection, const std::filesystem::path& home);

// For all others. The version of the file; 0: there is none, or none with tables. `may_annotate`:
// people's notes will be written, and the file must be there.
Result<int> read_store_file(Connection& connection, const std::filesystem::path& home,
                            bool may_annotate);

}  // namespace muster
