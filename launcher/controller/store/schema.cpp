#include "launcher/controller/store/schema.h"

namespace muster {

namespace {

// Each entry takes the file from version (index) to version (index + 1); never edited, only added
// to. A build that writes records of a kind or with a field that the one before does not know adds
// an entry too, empty if need be: the older build then refuses the file and not some record of it.
const std::string migrations[] = {
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
)sql",
    // Jobs that have ended and still hold nodes, because processes of theirs do not die. The
    // guess made here is corrected by the first record about such a node.
    R"sql(
ALTER TABLE job ADD COLUMN unclean INTEGER NOT NULL DEFAULT 0;
UPDATE job SET unclean = 1 WHERE name IN (
  SELECT job FROM record
  WHERE kind = 'node_clean' AND json_array_length(payload, '$.unkillable') > 0);
DROP INDEX job_live;
CREATE INDEX job_live ON job(name) WHERE ended_ms IS NULL OR unclean = 1;
)sql",
    // Records say what the restart rules say of a rank's exit, submitted jobs carry the rules of
    // their site; and what of an attempt was left behind or could not be proven.
    "",
    // Records say when on the controller's monotonic clock a rank ended or a node fell silent, and
    // who failed first.
    "",
    // Records tell of spares, of nodes set aside, of notices, of stalls and of how long a launch
    // took, with the limits of the target.
    "",
    // Records say how many GPUs a node has, and how many ranks were started on each for them.
    "",
    // Records tell of nodes that come to a running attempt and go from it.
    "",
    // A job may have one number of nodes or another. Records name certified checkpoints, and why a
    // resume wants one.
    R"sql(
ALTER TABLE job ADD COLUMN nodes_min INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN nodes_max INTEGER NOT NULL DEFAULT 0;
)sql",
    // Records tell of what health checks found on nodes, and targets what a healthy node is.
    "",
    // Records of faults say whose the node was and whether nodes share the cause; those of an open
    // breaker which drains were in vain.
    "",
    // Records tell of resets and reboots that muster carries out, and targets with which commands.
    "",
    // The breaker of a check is one of a target's: its records name target and nodes.
    "",
    // Records say of a start that failed that it was the job's own doing.
    "",
    // What is left of a job whose records were removed.
    R"sql(
CREATE TABLE summary (job TEXT PRIMARY KEY, payload TEXT NOT NULL);
)sql",
    // Records say how long they are read back, of a matched rule whether saved values may be wrong
    // after it, and that another controller continues a job.
    std::string(R"sql(
ALTER TABLE record ADD COLUMN keep TEXT NOT NULL DEFAULT 'with_job';
ALTER TABLE record ADD COLUMN keep_key TEXT NOT NULL DEFAULT '';
)sql") + "UPDATE record SET keep = " +
        keep_by_kind + ", keep_key = " + keep_key_by_kind + " WHERE job = '';"};

static_assert(std::size(migrations) == store_version);

Result<int> file_version(const Connection& connection) {
  Statement query(connection, "PRAGMA user_version");
  if (!query.valid() || query.step() != SQLITE_ROW) return connection.failure("cannot read");
  return static_cast<int>(query.number(0));
}

// The version is looked at again under the lock: another process may just have migrated.
Status migrate(Connection& connection) {
  const auto version = schema_version(connection);
  if (!version) return version.error();
  for (int next = *version; next < store_version; ++next) {
    const std::string sql = migrations[next] + "PRAGMA user_version=" + std::to_string(next + 1);
    if (auto done = connection.run(sql.c_str()); !done) return done;
  }
  return Done{};
}

}  // namespace

Result<int> schema_version(Connection& connection) {
  auto version = file_version(connection);
  if (!version || *version <= store_version) return version;
  return Error{"the job store " + connection.path() + " was written by a newer muster (store " +
               "version " + std::to_string(*version) + ", this one knows " +
               std::to_string(store_version) + "): use that version, or set MUSTER_HOME elsewhere"};
}

Status prepare_schema(Connection& connection) {
  const auto version = schema_version(connection);
  if (!version) return version.error();
  if (*version == store_version) return Done{};
  if (auto begun = connection.run("BEGIN IMMEDIATE"); !begun) return begun;
  Status done = migrate(connection);
  if (done) done = connection.run("COMMIT");
  if (!done) sqlite3_exec(connection.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  return done;
}

}  // namespace muster
