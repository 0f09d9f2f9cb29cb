#include "launcher/controller/store_schema.h"

namespace muster {

namespace {

// Each entry takes the file from version (index) to version (index + 1); never edited, only added
// to.
constexpr const char* migrations[] = {
    R"sql(
CREATE TABLE record (
  seq INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  job TEXT NOT NULL,
  node TEXT NOT NULL,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL);
CREATE INDEX record_job ON record(job, seq);
CREATE INDEX record_node ON record(node, kind, seq) WHERE job = '';
CREATE TABLE job (
  name TEXT PRIMARY KEY,
  submit_order INTEGER NOT NULL,
  display_name TEXT NOT NULL,
  experiment TEXT NOT NULL,
  compute TEXT NOT NULL,
  user TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  submitted_ms INTEGER NOT NULL,
  started_ms INTEGER,
  ended_ms INTEGER,
  exit_code INTEGER,
  attempts INTEGER NOT NULL,
  step INTEGER,
  checkpoint_step INTEGER,
  nodes TEXT NOT NULL,
  tags TEXT NOT NULL,
  archived INTEGER NOT NULL DEFAULT 0);
CREATE INDEX job_newest ON job(submitted_ms DESC);
CREATE INDEX job_live ON job(name) WHERE ended_ms IS NULL;
)sql"};

static_assert(std::size(migrations) == store_version);

Result<int> version_of(Connection& connection) {
  Statement query(connection, "PRAGMA user_version");
  if (!query.valid() || query.step() != SQLITE_ROW) return connection.failure("cannot read");
  const int version = static_cast<int>(query.number(0));
  if (version > store_version) {
    return Error{"the job store was written by a newer muster (store version " +
                 std::to_string(version) + ", this one knows " + std::to_string(store_version) +
                 "): use that version, or set MUSTER_HOME elsewhere"};
  }
  return version;
}

}  // namespace

Status prepare_schema(Connection& connection) {
  auto version = version_of(connection);
  if (!version) return version.error();
  for (int next = *version; next < store_version; ++next) {
    const std::string sql = "BEGIN IMMEDIATE;" + std::string(migrations[next]) +
                            "PRAGMA user_version=" + std::to_string(next + 1) + ";COMMIT;";
    auto done = connection.run(sql.c_str());
    if (!done) return done;
  }
  return Done{};
}

Result<bool> has_readable_schema(Connection& connection) {
  auto version = version_of(connection);
  if (!version) return version.error();
  return *version > 0;
}

}  // namespace muster
