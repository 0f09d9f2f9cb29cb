// SQLite behind RAII: a connection, a statement bound and stepped in one expression. Errors come
// back as Status sentences that name the file. Used by the store only.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "scheduler/model/result.h"

namespace muster {

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

}  // namespace muster
