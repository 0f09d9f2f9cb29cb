#include "launcher/controller/store/store.h"

#include "launcher/controller/store/job_leavings.h"
#include "launcher/controller/store/schema.h"
#include "launcher/wire/record_codec.h"
#include "scheduler/model/names.h"
#include "scheduler/state/limits.h"

namespace muster {

struct Store::Sqlite {
  Connection connection;
  int version = store_version;
};

namespace {

constexpr const char* row_columns =
    "name, submit_order, display_name, experiment, compute, user, state, reason, submitted_ms, "
    "started_ms, ended_ms, exit_code, attempts, step, checkpoint_step, nodes, tags, archived, "
    "unclean, nodes_min, nodes_max";

// People own the rest of an existing row: `change_tags`, `set_archived`.
constexpr const char* replace_row =
    " ON CONFLICT(name) DO UPDATE SET submit_order = excluded.submit_order, "
    "display_name = excluded.display_name, experiment = excluded.experiment, "
    "compute = excluded.compute, user = excluded.user, state = excluded.state, "
    "reason = excluded.reason, submitted_ms = excluded.submitted_ms, "
    "started_ms = excluded.started_ms, ended_ms = excluded.ended_ms, "
    "exit_code = excluded.exit_code, attempts = excluded.attempts, step = excluded.step, "
    "checkpoint_step = excluded.checkpoint_step, nodes = excluded.nodes, "
    "unclean = excluded.unclean, nodes_min = excluded.nodes_min, "
    "nodes_max = excluded.nodes_max";

constexpr int summary_version = 14;  // since when there are summaries

// A file that no controller has migrated yet is read with the meaning its version had.
std::string columns_of(int version) {
  std::string columns = row_columns;
  const auto cut = [&](const char* first, const char* meaning) {
    columns.replace(columns.rfind(first), std::string::npos, meaning);
  };
  if (version < 8) cut("nodes_min", "0, 0");
  if (version < 2) cut("unclean", "0, 0, 0");
  return columns;
}

std::optional<Time> maybe_time(std::optional<std::int64_t> ms) {
  if (!ms) return std::nullopt;
  return from_ms(*ms);
}

std::optional<std::int64_t> maybe_ms(const std::optional<Time>& time) {
  if (!time) return std::nullopt;
  return to_ms(*time);
}

JobRow row_at(const Statement& query) {
  JobRow row;
  row.name = query.text(0);
  row.order = query.number(1);
  row.display_name = query.text(2);
  row.experiment = query.text(3);
  row.compute = query.text(4);
  row.user = query.text(5);
  row.state = query.text(6);
  row.reason = query.text(7);
  row.submitted_at = from_ms(query.number(8));
  row.started_at = maybe_time(query.maybe_number(9));
  row.ended_at = maybe_time(query.maybe_number(10));
  if (const auto code = query.maybe_number(11)) row.exit_code = static_cast<int>(*code);
  row.attempts = query.number(12);
  row.step = query.maybe_number(13);
  row.checkpoint_step = query.maybe_number(14);
  row.nodes = query.text(15);
  row.tags = query.text(16);
  row.archived = query.number(17) != 0;
  row.unclean = query.number(18) != 0;
  row.nodes_min = static_cast<int>(query.number(19));
  row.nodes_max = static_cast<int>(query.number(20));
  return row;
}

void bind_row(Statement& insert, const JobRow& row) {
  insert.bind(row.name).bind(row.order).bind(row.display_name).bind(row.experiment);
  insert.bind(row.compute).bind(row.user).bind(row.state).bind(row.reason);
  insert.bind(to_ms(row.submitted_at)).bind(maybe_ms(row.started_at));
  insert.bind(maybe_ms(row.ended_at));
  insert.bind(row.exit_code ? std::optional<std::int64_t>(*row.exit_code) : std::nullopt);
  insert.bind(row.attempts).bind(row.step).bind(row.checkpoint_step);
  insert.bind(row.nodes).bind(row.tags).bind(std::int64_t{row.archived});
  insert.bind(std::int64_t{row.unclean});
  insert.bind(std::int64_t{row.nodes_min}).bind(std::int64_t{row.nodes_max});
}

Result<std::vector<Record>> read_records(const Connection& connection, Statement& query) {
  std::vector<Record> records;
  int step = SQLITE_ERROR;
  while ((step = query.step()) == SQLITE_ROW) {
    auto record = decode_record(query.text(1), query.text(2), from_ms(query.number(0)));
    if (!record) return record.error();
    records.push_back(std::move(*record));
  }
  if (step != SQLITE_DONE) return connection.failure("cannot read");
  return records;
}

template <class Make>
auto all_of(const Connection& connection, Statement& query, Make make)
    -> Result<std::vector<decltype(make(query))>> {
  std::vector<decltype(make(query))> all;
  int step = SQLITE_ERROR;
  while ((step = query.step()) == SQLITE_ROW) all.push_back(make(query));
  if (step != SQLITE_DONE) return connection.failure("cannot read");
  return all;
}

template <class Make>
auto first_of(const Connection& connection, Statement& query, Make make)
    -> Result<std::optional<decltype(make(query))>> {
  auto all = all_of(connection, query, make);
  if (!all) return all.error();
  return all->empty() ? std::nullopt : std::optional(std::move(all->front()));
}

}  // namespace

Store::Store(std::unique_ptr<Sqlite> sqlite) : sqlite_(std::move(sqlite)) {}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::open(const std::filesystem::path& home, Mode mode) {
  auto sqlite = std::make_unique<Sqlite>();
  auto& connection = sqlite->connection;
  if (mode == Mode::read_write) {
    if (auto opened = open_store_file(connection, home); !opened) return opened.error();
  } else {
    const auto version = read_store_file(connection, home, mode == Mode::annotate);
    if (!version) return version.error();
    sqlite->version = *version;
    if (mode == Mode::annotate && *version != store_version) {
      return Error{"the job store " + connection.path() + " was written by an older muster: " +
                   "submit a job, or run `muster nodes`, to bring it up to date"};
    }
    if (*version == 0) {  // what is not there yet reads as a store without jobs
      sqlite->version = store_version;
      Status made = connection.open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
      if (made) made = prepare_schema(connection);
      if (!made) return made.error();
    }
  }
  return std::unique_ptr<Store>(new Store(std::move(sqlite)));
}

// Under the lock: its records may have been removed since somebody looked.
Status Store::can_resume(const std::vector<Record>& records) const {
  for (const Record& record : records) {
    const auto* resume = record_as<ResumeRequested>(record);
    if (resume == nullptr) continue;
    const auto summary = summary_of(resume->job);
    if (!summary) return summary.error();
    if (*summary) return records_removed(resume->job);
  }
  return Done{};
}

Status Store::append(const std::vector<Record>& records, const std::vector<JobRow>& rows) {
  auto& connection = sqlite_->connection;
  Transaction change(connection);
  if (!change.begun()) return change.begun();
  if (Status possible = can_resume(records); !possible) return possible;
  Statement insert(
      connection,
      "INSERT INTO record(at_ms, job, node, kind, payload, keep, keep_key) VALUES(?,?,?,?,?,?,?)");
  for (const Record& record : records) {
    const RecordText text = encode_record(record);
    const JobId* job = job_of(record);
    const NodeId* node = node_of(record);
    insert.bind(to_ms(record.at)).bind(job == nullptr ? std::string() : job->value);
    insert.bind(node == nullptr ? std::string() : node->value);
    insert.bind(text.kind).bind(text.payload);
    insert.bind(std::string(word(keep_of(record))));
    insert.bind(keep_key_of(record));
    if (insert.step() != SQLITE_DONE) return connection.failure("cannot write");
    insert.reset();
  }
  Statement replace(connection, "INSERT INTO job(" + std::string(row_columns) +
                                    ") VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)" +
                                    replace_row);
  for (const JobRow& row : rows) {
    bind_row(replace, row);
    if (replace.step() != SQLITE_DONE) return connection.failure("cannot write");
    replace.reset();
  }
  return change.commit();
}

// The records of live jobs, all of nodes since the first of these, and before that a SELECT for
// each value of Keep.
Result<std::vector<Record>> Store::load_live() const {
  const int version = sqlite_->version;
  const std::string live =
      version < 2 ? "j.ended_ms IS NULL" : "(j.ended_ms IS NULL OR j.unclean = 1)";
  const std::string columns =
      version >= keep_version
          ? "*"
          : std::string("*, ") + keep_by_kind + " AS keep, " + keep_key_by_kind + " AS keep_key";
  const std::string month = std::to_string(fault_memory.count());
  Statement query(
      sqlite_->connection,
      "WITH live(seq) AS (SELECT r.seq FROM job j JOIN record r ON r.job = j.name WHERE " + live +
          "), since(seq) AS (SELECT ifnull(min(seq), 9223372036854775807) FROM live),"
          " recent(ms) AS (SELECT at_ms - " +
          month +
          " FROM record ORDER BY seq DESC LIMIT 1),"
          " earlier AS NOT MATERIALIZED (SELECT " +
          columns +
          " FROM record"
          " WHERE job = '' AND seq < (SELECT seq FROM since)),"
          " sound(node, seq) AS (SELECT node, max(seq) FROM earlier"
          " WHERE keep = 'while_faulty' AND keep_key = '' GROUP BY node)"
          " SELECT at_ms, kind, payload FROM record WHERE seq IN ("
          " SELECT seq FROM live"
          " UNION ALL SELECT seq FROM record WHERE job = '' AND seq > (SELECT seq FROM since)"
          " UNION ALL SELECT max(seq) FROM earlier WHERE keep IN ('newest', 'month')"
          " GROUP BY node, kind, keep_key"
          " UNION ALL SELECT seq FROM earlier WHERE keep = 'month'"
          " AND at_ms > (SELECT ms FROM recent)"
          " UNION ALL SELECT seen.seq FROM earlier seen LEFT JOIN sound USING (node)"
          " WHERE keep = 'while_faulty' AND (seen.seq >= ifnull(sound.seq, 0)"
          " OR (keep_key = 'recurs' AND at_ms > (SELECT ms FROM recent))))"
          " ORDER BY seq");
  return read_records(sqlite_->connection, query);
}

Result<std::vector<Record>> Store::records_of(const JobId& job) const {
  Statement query(sqlite_->connection,
                  "SELECT at_ms, kind, payload FROM record WHERE job = ? ORDER BY seq");
  query.bind(job.value);
  return read_records(sqlite_->connection, query);
}

Result<std::vector<Record>> Store::links_during(const JobId& job) const {
  Statement query(sqlite_->connection,
                  "SELECT at_ms, kind, payload FROM record WHERE job = '' AND kind = ?"
                  " AND seq > (SELECT min(seq) FROM record WHERE job = ?)"
                  " AND seq < (SELECT max(seq) FROM record WHERE job = ?) ORDER BY seq");
  query.bind(std::string(LinkUp::kind)).bind(job.value).bind(job.value);
  return read_records(sqlite_->connection, query);
}

Result<std::vector<Record>> Store::faults_during(const JobId& job) const {
  Statement query(sqlite_->connection,
                  "SELECT at_ms, kind, payload FROM record WHERE job = '' AND kind IN (?, ?, ?, ?)"
                  " AND seq > (SELECT min(seq) FROM record WHERE job = ?)"
                  " AND (seq < (SELECT max(seq) FROM record WHERE job = ?)"
                  " OR EXISTS (SELECT 1 FROM job WHERE name = ? AND ended_ms IS NULL))"
                  " AND node IN (SELECT node FROM record WHERE job = ? AND node <> '')"
                  " ORDER BY seq");
  query.bind(std::string(NodeFaulted::kind)).bind(std::string(NodeFaultOver::kind));
  query.bind(std::string(RemedyBegun::kind)).bind(std::string(RemedyOver::kind));
  query.bind(job.value).bind(job.value).bind(job.value).bind(job.value);
  return read_records(sqlite_->connection, query);
}

Result<std::vector<JobRow>> Store::jobs(const JobFilter& filter) const {
  std::string sql = "SELECT " + columns_of(sqlite_->version) + " FROM job WHERE 1";
  std::vector<std::string> values;
  const auto equal = [&](const char* column, const std::string& value) {
    if (value.empty()) return;
    sql += std::string(" AND ") + column + " = ? COLLATE NOCASE";
    values.push_back(value);
  };
  equal("state", filter.state);
  equal("compute", filter.compute);
  equal("experiment", filter.experiment);
  equal("user", filter.user);
  if (!filter.node.empty()) {
    sql += " AND instr(',' || nodes || ',', ',' || ? || ',') > 0";
    values.push_back(filter.node);
  }
  if (!filter.tag.empty()) {
    const auto equals = filter.tag.find('=');
    sql += " AND EXISTS (SELECT 1 FROM json_each(job.tags) t WHERE t.key = ?";
    values.push_back(filter.tag.substr(0, equals));
    if (equals != std::string::npos) {
      sql += " AND t.value = ?";
      values.push_back(filter.tag.substr(equals + 1));
    }
    sql += ")";
  }
  if (filter.archived)
    sql += " AND archived = 1";
  else if (!filter.include_archived)
    sql += " AND archived = 0";
  if (filter.since) sql += " AND submitted_ms >= " + std::to_string(to_ms(*filter.since));
  sql += " ORDER BY submitted_ms DESC, submit_order DESC";
  if (filter.limit) sql += " LIMIT " + std::to_string(*filter.limit);
  Statement query(sqlite_->connection, sql);
  for (const std::string& value : values) query.bind(value);
  return all_of(sqlite_->connection, query, row_at);
}

Result<std::optional<JobRow>> Store::job(const JobId& job) const {
  Statement query(sqlite_->connection,
                  "SELECT " + columns_of(sqlite_->version) + " FROM job WHERE name = ?");
  query.bind(job.value);
  return first_of(sqlite_->connection, query, row_at);
}

Result<std::vector<std::string>> Store::names_starting_with(const std::string& prefix,
                                                            int limit) const {
  Statement query(sqlite_->connection,
                  "SELECT name FROM job WHERE substr(name, 1, ?) = ? "
                  "ORDER BY submitted_ms DESC LIMIT ?");
  query.bind(static_cast<std::int64_t>(prefix.size())).bind(prefix).bind(std::int64_t{limit});
  return all_of(sqlite_->connection, query, [](Statement& row) { return row.text(0); });
}

Result<bool> Store::annotate(const std::string& change, const JobId& job,
                             const std::string& value) {
  Statement update(sqlite_->connection, "UPDATE job SET " + change);
  update.bind(value).bind(job.value);
  if (update.step() != SQLITE_DONE) return sqlite_->connection.failure("cannot write");
  return sqlite3_changes(sqlite_->connection.handle()) != 0;
}

Status Store::set_archived(const JobId& job, bool archived) {
  const auto changed =
      annotate("archived = ? WHERE name = ? AND ended_ms IS NOT NULL", job, archived ? "1" : "0");
  if (!changed) return changed.error();
  if (*changed) return Done{};
  return Error{"job " + job.value + " has not ended or is unknown: only ended jobs are archived"};
}

Result<std::vector<JobRow>> Store::ended_before(Time then) const {
  if (sqlite_->version < summary_version) return std::vector<JobRow>{};
  Statement query(sqlite_->connection,
                  "SELECT " + columns_of(sqlite_->version) +
                      " FROM job WHERE ended_ms < ? AND unclean = 0"
                      " AND NOT EXISTS (SELECT 1 FROM summary WHERE summary.job = job.name)"
                      " ORDER BY ended_ms");
  query.bind(to_ms(then));
  return all_of(sqlite_->connection, query, row_at);
}

Result<bool> Store::reduce(const JobId& job, Time ended_before, const std::string& summary) {
  auto& connection = sqlite_->connection;
  Transaction change(connection);
  if (!change.begun()) return change.begun().error();
  Statement insert(connection,
                   "INSERT OR REPLACE INTO summary(job, payload) SELECT name, ? FROM job"
                   " WHERE name = ? AND ended_ms < ? AND unclean = 0");
  insert.bind(summary).bind(job.value).bind(to_ms(ended_before));
  if (insert.step() != SQLITE_DONE) return connection.failure("cannot write");
  const bool has_ended = sqlite3_changes(connection.handle()) != 0;
  Statement remove(connection,
                   "DELETE FROM record WHERE job = ? AND job IN (SELECT job FROM summary)");
  remove.bind(job.value);
  if (has_ended && remove.step() != SQLITE_DONE) return connection.failure("cannot write");
  if (Status done = change.commit(); !done) return done.error();
  return has_ended;
}

Result<std::optional<std::string>> Store::summary_of(const JobId& job) const {
  if (sqlite_->version < summary_version) return std::optional<std::string>{};
  Statement query(sqlite_->connection, "SELECT payload FROM summary WHERE job = ?");
  query.bind(job.value);
  return first_of(sqlite_->connection, query, [](Statement& row) { return row.text(0); });
}

Status Store::forget_links(Time before) {
  Statement remove(sqlite_->connection,
                   "WITH since(seq) AS (SELECT ifnull(min(r.seq), 9223372036854775807)"
                   " FROM job j JOIN record r ON r.job = j.name"
                   " WHERE j.ended_ms IS NULL OR j.unclean = 1 OR j.ended_ms >= ?)"
                   " DELETE FROM record WHERE job = '' AND kind IN ('link_up', 'link_down')"
                   " AND at_ms < ? AND seq < (SELECT seq FROM since)"
                   " AND seq NOT IN (SELECT max(seq) FROM record WHERE job = ''"
                   " AND kind IN ('link_up', 'link_down') AND seq < (SELECT seq FROM since)"
                   " GROUP BY node, kind)");
  remove.bind(to_ms(before)).bind(to_ms(before));
  if (remove.step() != SQLITE_DONE) return sqlite_->connection.failure("cannot write");
  return Done{};
}

Result<bool> Store::while_ended(const JobId& job, Time before, const std::function<bool()>& act) {
  const Transaction lock(sqlite_->connection);
  if (!lock.begun()) return lock.begun().error();
  const auto row = this->job(job);
  if (!row) return row.error();
  const bool is_over = *row && (*row)->ended_at && *(*row)->ended_at < before;
  return is_over && !(*row)->unclean && act();
}

Status Store::change_tags(const JobId& job, const TagChange& change) {
  Transaction lock(sqlite_->connection);
  if (!lock.begun()) return lock.begun();
  const auto row = this->job(job);
  if (!row) return row.error();
  if (!*row) return Error{"job " + job.value + " not found"};
  const auto tags = change((*row)->tags);
  if (!tags) return tags.error();
  const auto changed = annotate("tags = ? WHERE name = ?", job, *tags);
  return changed ? lock.commit() : Status(changed.error());
}

}  // namespace muster
