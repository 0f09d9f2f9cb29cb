#include "launcher/controller/store/sqlite.h"

#include <cerrno>
#include <utility>

namespace muster {

namespace {

// A reader meets the writer's lock only while the WAL is being reset; a writer meets another writer
// never (the controller's lock file). Five seconds covers a slow disk's checkpoint.
constexpr int busy_timeout_ms = 5000;

}  // namespace

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
