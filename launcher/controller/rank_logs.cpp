#include "launcher/controller/rank_logs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace muster {

namespace {

// Half of the usual soft limit of 1024 descriptors; the rest is for links and clients.
constexpr std::size_t open_files_limit = 512;

// An agent keeps what is not acknowledged: more than this was never lost, it is a broken message.
constexpr std::int64_t longest_gap_bytes = std::int64_t{64} << 30;

Error failed(const std::string& what, const std::filesystem::path& path) {
  return Error{"cannot " + what + " " + path.string() + ": " + std::strerror(errno)};
}

Status write_at(int descriptor, std::string_view bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error{std::strerror(errno)};
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  return Done{};
}

}  // namespace

RankLogs::~RankLogs() {
  for (auto& [key, file] : files_) ::close(file.descriptor);
}

Result<RankLogs::File*> RankLogs::open(const JobId& job, AttemptId attempt, RankId rank) {
  const Key key{job.value, attempt.value, rank.value};
  if (const auto found = files_.find(key); found != files_.end()) return &found->second;
  if (files_.size() >= open_files_limit) {
    ::close(files_.begin()->second.descriptor);
    files_.erase(files_.begin());
  }
  // mpirun's own words come as rank -1.
  const auto path = rank.value < 0 ? home_.attempt(job, attempt) / "mpirun.log"
                                   : home_.rank_log(job, attempt, rank);
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return failed("open the log", path);
  struct stat status {};
  ::fstat(descriptor, &status);
  return &files_.emplace(key, File{descriptor, status.st_size}).first->second;
}

Result<std::int64_t> RankLogs::size(const JobId& job, AttemptId attempt, RankId rank) {
  auto file = open(job, attempt, rank);
  if (!file) return file.error();
  return (*file)->size;
}

Result<std::int64_t> RankLogs::write(const JobId& job, AttemptId attempt, RankId rank,
                                     std::int64_t offset, std::string_view bytes) {
  auto opened = open(job, attempt, rank);
  if (!opened) return opened.error();
  File& file = **opened;
  const auto cannot_write = [&](const Error& why) {
    return Error{"cannot write the log of rank " + std::to_string(rank.value) + " of job " +
                 job.value + ": " + why.message};
  };
  if (offset < 0) return cannot_write(Error{"the output begins before the log"});
  if (offset > file.size) {
    if (auto filled = fill_gap(file, offset); !filled) return cannot_write(filled.error());
  }
  const auto known = static_cast<std::size_t>(file.size - offset);
  if (known >= bytes.size()) return file.size;
  bytes.remove_prefix(known);
  if (auto done = write_at(file.descriptor, bytes, file.size); !done) {
    return cannot_write(done.error());
  }
  file.size += static_cast<std::int64_t>(bytes.size());
  return file.size;
}

// What was acknowledged once and is not here any more (this machine lost power, or somebody cut the
// file) is not on the node either. The rest keeps its place.
Status RankLogs::fill_gap(File& file, std::int64_t to) {
  if (to - file.size > longest_gap_bytes) {
    return Error{"the output continues at byte " + std::to_string(to) + " but the log has only " +
                 std::to_string(file.size)};
  }
  std::string words = "\n[muster: " + std::to_string(to - file.size) +
                      " bytes of the output were lost with this log]";
  words.resize(std::min(words.size(), static_cast<std::size_t>(to - file.size - 1)));
  if (::ftruncate(file.descriptor, to) != 0) return Error{std::strerror(errno)};
  if (auto done = write_at(file.descriptor, words, file.size); !done) return done;
  if (auto done = write_at(file.descriptor, "\n", to - 1); !done) return done;
  file.size = to;
  return Done{};
}

Status RankLogs::append_metrics(const JobId& job, AttemptId attempt, std::string_view lines) {
  const auto path = home_.metrics(job, attempt);
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor < 0) return failed("open", path);
  const ssize_t written = ::write(descriptor, lines.data(), lines.size());
  ::close(descriptor);
  if (written != static_cast<ssize_t>(lines.size())) return failed("write", path);
  return Done{};
}

void RankLogs::close_attempt(const JobId& job, AttemptId attempt) {
  for (auto it = files_.lower_bound(Key{job.value, attempt.value, -1}); it != files_.end();) {
    if (std::get<0>(it->first) != job.value || std::get<1>(it->first) != attempt.value) break;
    ::close(it->second.descriptor);
    it = files_.erase(it);
  }
}

}  // namespace muster
