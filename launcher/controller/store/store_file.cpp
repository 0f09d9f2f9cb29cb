#include "launcher/controller/store/store_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "launcher/controller/store/own_home.h"
#include "launcher/controller/store/schema.h"
#include "launcher/os/fd.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

std::string store_path(const fs::path& home) {
  return (home / "muster.db").string();
}

// Whether the file is there; an Error: there is no telling.
Result<bool> exists(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) return true;
  const int error = errno;
  if (error == ENOENT) return false;
  const std::string cure =
      error == ENOTDIR ? " (set MUSTER_HOME to a directory)" : " (set MUSTER_HOME to your own)";
  return Error{"cannot read the job store " + path + ": " +
               std::generic_category().message(error) + cure};
}

bool is_read_only_place(const std::string& path) {
  return ::access(fs::path(path).parent_path().c_str(), W_OK) != 0;
}

// A reader of a WAL store makes files beside it. Where it cannot, and no change waits in a WAL, the
// file alone is the whole store.
Result<int> version_to_read(Connection& connection, const std::string& path, int flags) {
  if (auto opened = connection.open(path, flags); !opened) return opened.error();
  auto version = schema_version(connection);
  if (version || !is_read_only_place(path)) return version;
  if (auto wal = exists(path + "-wal"); !wal || *wal) {
    return Error{version.error().message + "; its latest changes lie in muster.db-wal, which " +
                 "cannot be read where nothing can be written: copy the directory and set " +
                 "MUSTER_HOME to the copy"};
  }
  if (auto opened = connection.open_unchanging(path); !opened) return opened.error();
  return schema_version(connection);
}

Status check_no_jobs_beside(const fs::path& home) {
  std::error_code absent;  // then it is the end as well
  const fs::directory_iterator first(home / "jobs", absent);
  if (first == fs::directory_iterator()) return Done{};
  return Error{"the job store " + store_path(home) + " is empty, and there are jobs in " +
               (home / "jobs").string() +
               ": put a copy of it back, or move that folder away to begin without them"};
}

// SQLite gives the files that it makes beside the store the mode of the store.
Status close_to_others(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const std::string file = path + suffix;
    if (::chmod(file.c_str(), 0600) != 0 && errno != ENOENT) {
      return Error{"cannot set mode 0600 of " + file + ": " +
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

// What a controller left that was killed while it did this is begun anew.
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

}  // namespace

Status open_store_file(Connection& connection, const fs::path& home) {
  const std::string path = store_path(home);
  const auto is_there = exists(path);
  if (!is_there) return is_there.error();
  if (auto ours = check_home(Home{home}); !ours) return ours;
  if (Status made = *is_there ? Done{} : make_file(path); !made) return made;
  if (auto closed = close_to_others(path); !closed) return closed;
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
  if (!*is_there && !may_annotate) return 0;
  const auto version = version_to_read(
      connection, path, may_annotate ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
  if (!version || *version != 0) return version;
  if (auto alone = check_no_jobs_beside(home); !alone) return alone.error();
  return 0;
}

}  // namespace muster
