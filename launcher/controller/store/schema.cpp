#include "launcher/controller/store/schema.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "launcher/controller/store/home.h"
#include "launcher/os/fd.h"
#include "launcher/os/private_directory.h"

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
        keep_by_kind + ", keep_key = " + keep_key_by_kind + " WHERE job = '';",
    // Records of links say which lease the agent holds, how long it was silent, and that its host
    // refused.
    ""};

static_assert(std::size(migrations) == store_version);

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

namespace fs = std::filesystem;

std::string store_path(const fs::path& home) {
  return (home / "muster.db").string();
}

// Whether the file, or a link that leads nowhere, is there; an Error: there is no telling.
Result<bool> exists(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) == 0) return true;
  const int error = errno;
  if (error == ENOENT) return false;
  const std::string cure =
      error == ENOTDIR ? " (set MUSTER_HOME to a directory)" : " (set MUSTER_HOME to your own)";
  return Error{"cannot read the job store " + path + ": " + std::generic_category().message(error) +
               cure};
}

// A reader of a WAL store makes files beside it. Where it cannot, and no change waits in a WAL, the
// file alone is the whole store.
Result<int> version_to_read(Connection& connection, const std::string& path, int flags) {
  if (auto opened = connection.open(path, flags); !opened) return opened.error();
  auto version = schema_version(connection);
  if (version || ::access(fs::path(path).parent_path().c_str(), W_OK) == 0) return version;
  if (auto wal = exists(path + "-wal"); !wal || *wal) {
    return Error{version.error().message + "; its latest changes lie in muster.db-wal, which " +
                 "cannot be read where nothing can be written: copy the directory and set " +
                 "MUSTER_HOME to the copy"};
  }
  if (auto opened = connection.open_unchanging(path); !opened) return opened.error();
  return schema_version(connection);
}

Error without_its_store(const fs::path& home, const std::string& what) {
  return Error{"the job store " + store_path(home) + " is " + what + ", and there are jobs in " +
               (home / "jobs").string() +
               ": put a copy of it back, or move that folder away to begin without them"};
}

Status check_no_jobs_beside(const fs::path& home) {
  std::error_code absent;  // then it is the end as well
  const fs::directory_iterator first(home / "jobs", absent);
  if (first == fs::directory_iterator()) return Done{};
  return without_its_store(home, "empty");
}

// A job that is being submitted has its folder before the first controller makes the store; what
// ran has a folder in it.
bool has_run(const fs::path& job) {
  std::error_code unknown;
  for (fs::directory_iterator entry(job, unknown), end; !unknown && entry != end;
       entry.increment(unknown)) {
    if (entry->is_directory(unknown)) return true;
  }
  return false;
}

Status check_not_lost(const fs::path& home) {
  std::error_code unknown;
  for (fs::directory_iterator job(home / "jobs", unknown), end; !unknown && job != end;
       job.increment(unknown)) {
    if (!has_run(job->path())) continue;
    // The first controller may have made it meanwhile.
    const auto is_there = exists(store_path(home));
    return is_there && *is_there ? Status(Done{}) : without_its_store(home, "missing");
  }
  return Done{};
}

// No link, and of this user: then it is what SQLite opens. With a mode, which a descriptor of this
// kind gives by way of /proc alone; closing another kind would end SQLite's locks.
Status check_files(const std::string& path, std::optional<mode_t> mode) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const std::string name = path + suffix;
    const Fd file(::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts {};
    if (!file && errno == ENOENT) continue;
    if (!file || ::fstat(file.get(), &facts) != 0) {
      return Error{"cannot look at " + name + ": " + std::generic_category().message(errno)};
    }
    if (!S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid()) {
      return Error{"the job store cannot be used: " + name + " is " +
                   (S_ISLNK(facts.st_mode) ? "a link" : "no file of yours") + " (" +
                   owner_and_mode(facts) +
                   "); put the file itself there, or set MUSTER_HOME elsewhere"};
    }
    const std::string same = "/proc/self/fd/" + std::to_string(file.get());
    if (mode && ::chmod(same.c_str(), *mode) != 0) {
      return Error{"cannot set the mode of " + name + ": " +
                   std::generic_category().message(errno)};
    }
  }
  return Done{};
}

Status move_into_place(const std::string& from, const std::string& to) {
  const fs::path parent = fs::path(to).parent_path();
  const Fd directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool moved = ::rename(from.c_str(), to.c_str()) == 0;
  if (moved && (::fsync(directory.get()) == 0 || errno == EINVAL)) return Done{};
  return Error{"cannot write the job store " + to + ": " + std::generic_category().message(errno)};
}

// What a controller left that was killed while it did this is started again.
Status make_file(const std::string& path) {
  const std::string fresh = path + ".new";
  for (const char* suffix : {"", "-journal"}) ::unlink((fresh + suffix).c_str());
  {
    Connection connection;
    auto made = connection.open(fresh, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (made) made = prepare_schema(connection);
    if (!made) return made;
  }
  return move_into_place(fresh, path);
}

// A reader meets the writer's lock only while the WAL is being reset; a writer meets another writer
// never (the controller's lock file). Five seconds covers a slow disk's checkpoint.
constexpr int busy_timeout_ms = 5000;

}  // namespace

Result<int> schema_version(Connection& connection) {
  Statement query(connection, "PRAGMA user_version");
  if (query.step() != SQLITE_ROW) return connection.failure("cannot read");
  const auto version = static_cast<int>(query.number(0));
  if (version <= store_version) return version;
  return Error{"the job store " + connection.path() + " was written by a newer muster (store " +
               "version " + std::to_string(version) + ", this one knows " +
               std::to_string(store_version) + "): use that version, or set MUSTER_HOME elsewhere"};
}

Status prepare_schema(Connection& connection) {
  const auto version = schema_version(connection);
  if (!version) return version.error();
  if (*version == store_version) return Done{};
  Transaction change(connection);
  if (!change.begun()) return change.begun();
  Status done = migrate(connection);
  return done ? change.commit() : done;
}

Status open_store_file(Connection& connection, const fs::path& home) {
  const std::string path = store_path(home);
  const auto is_there = exists(path);
  if (!is_there) return is_there.error();
  if (auto ours = check_home(Home{home}); !ours) return ours;
  Status made = *is_there ? Status(Done{}) : check_not_lost(home);
  if (made && !*is_there) made = make_file(path);
  // SQLite gives the files that it makes beside the store the mode of the store.
  if (made) made = check_files(path, 0600);
  if (!made) return made;
  if (auto opened = connection.open(path, SQLITE_OPEN_READWRITE); !opened) return opened;
  const auto version = schema_version(connection);
  if (!version) return version.error();
  if (*version == 0) {
    if (auto alone = check_no_jobs_beside(home); !alone) return alone;
  }
  auto ready = connection.run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;");
  return ready ? prepare_schema(connection) : ready;
}

Result<int> read_store_file(Connection& connection, const fs::path& home, bool may_annotate) {
  const std::string path = store_path(home);
  const auto is_there = exists(path);
  if (!is_there) return is_there.error();
  const auto has_home = exists(home.string());
  if (!has_home) return has_home.error();
  if (!*has_home && !may_annotate) return 0;
  if (auto ours = check_home(Home{home}); !ours) return ours.error();
  if (!*is_there && !may_annotate) {
    const Status fresh = check_not_lost(home);
    return fresh ? Result<int>(0) : fresh.error();
  }
  if (auto usable = check_files(path, {}); !usable) return usable.error();
  const auto version = version_to_read(connection, path,
                                       may_annotate ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
  if (!version || *version != 0) return version;
  if (auto alone = check_no_jobs_beside(home); !alone) return alone.error();
  return 0;
}

Status Connection::open(const std::string& path, int flags) {
  path_ = path;
  return open_as(path, flags);
}

Status Connection::open_unchanging(const std::string& path) {
  path_ = path;
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      static constexpr char digits[] = "0123456789ABCDEF";
      uri += {'%', digits[(c >> 4) & 15], digits[c & 15]};
    } else {
      uri += c;
    }
  }
  return open_as(uri + "?immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
}

Status Connection::open_as(const std::string& name, int flags) {
  sqlite3_close(std::exchange(handle_, nullptr));
  if (sqlite3_open_v2(name.c_str(), &handle_, flags, nullptr) != SQLITE_OK) {
    return failure("cannot open");
  }
  sqlite3_busy_timeout(handle_, busy_timeout_ms);
  return Done{};
}

Status Connection::run(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return Done{};
  return failure("cannot write");
}

Error Connection::failure(std::string_view what) const {
  std::string message = std::string(what) + " the job store " + path_ + ": ";
  message += handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_);
  const int code = handle_ == nullptr ? SQLITE_NOMEM : sqlite3_errcode(handle_);
  // A file beside the store that finds no room is an error of input and output to SQLite.
  const int cause = handle_ == nullptr ? 0 : sqlite3_system_errno(handle_);
  const bool is_without_room = code == SQLITE_IOERR && (cause == ENOSPC || cause == EDQUOT);
  if (is_without_room) message += ": the disk is full";
  if (code == SQLITE_FULL || is_without_room) {
    message += " (free some space or set MUSTER_HOME elsewhere)";
  }
  if (code == SQLITE_READONLY || code == SQLITE_CANTOPEN) {
    message += " (set MUSTER_HOME to a directory you can write)";
  }
  return Error{message};
}

Statement::Statement(const Connection& connection, const std::string& sql) {
  sqlite3_prepare_v2(connection.handle(), sql.c_str(), -1, &handle_, nullptr);
}

Statement& Statement::bind(const std::string& value) {
  sqlite3_bind_text(handle_, next_++, value.data(), static_cast<int>(value.size()),
                    SQLITE_TRANSIENT);
  return *this;
}

Statement& Statement::bind(std::int64_t value) {
  sqlite3_bind_int64(handle_, next_++, value);
  return *this;
}

Statement& Statement::bind(std::optional<std::int64_t> value) {
  if (value) return bind(*value);
  sqlite3_bind_null(handle_, next_++);
  return *this;
}

void Statement::reset() {
  sqlite3_reset(handle_);
  next_ = 1;
}

std::string Statement::text(int column) const {
  const auto* bytes = sqlite3_column_text(handle_, column);
  if (bytes == nullptr) return {};
  return {reinterpret_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

std::optional<std::int64_t> Statement::maybe_number(int column) const {
  if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  return number(column);
}

}  // namespace muster
