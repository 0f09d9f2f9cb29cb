#include "launcher/controller/agents/rank_logs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "launcher/os/read_file.h"

namespace muster {

namespace {

// Half of the usual soft limit of 1024 descriptors; the rest is for links and clients.
constexpr std::size_t open_files_limit = 512;

// No rank writes so much: it is a broken message.
constexpr std::int64_t offset_most = std::int64_t{1} << 62;

// Beside a log, once bytes of it were lost: how many more the rank wrote than it has.
std::filesystem::path note_of_loss(std::filesystem::path log) {
  return log.replace_extension(".lost");
}

Error failed(const std::string& what, const std::filesystem::path& path) {
  return Error{"cannot " + what + " " + path.string() + ": " + std::strerror(errno)};
}

}  // namespace

Result<RankLogs::File*> RankLogs::open(const JobId& job, AttemptId attempt, RankId rank) {
  const Key key{job.value, attempt.value, rank.value};
  if (const auto found = files_.find(key); found != files_.end()) return &found->second;
  if (files_.size() >= open_files_limit) files_.erase(files_.begin());
  // mpirun's own words come as rank -1.
  const auto path = rank.value < 0 ? home_.attempt(job, attempt) / "mpirun.log"
                                   : home_.rank_log(job, attempt, rank);
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  Fd log(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!log) return failed("open the log", path);
  struct stat status {};
  ::fstat(log.get(), &status);
  const auto note = note_of_loss(path);
  const std::int64_t lost = std::atoll(text_of_file(note).c_str());
  return &files_.emplace(key, File{std::move(log), status.st_size, lost, note}).first->second;
}

Result<std::int64_t> RankLogs::size(const JobId& job, AttemptId attempt, RankId rank) {
  auto file = open(job, attempt, rank);
  if (!file) return file.error();
  return (*file)->written();
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
  if (offset > offset_most) return cannot_write(Error{"the output begins beyond any end"});
  if (offset > file.written()) {
    if (auto noted = note_gap(file, offset); !noted) return cannot_write(noted.error());
  }
  const auto known = static_cast<std::size_t>(file.written() - offset);
  if (known >= bytes.size()) return file.written();
  bytes.remove_prefix(known);
  if (auto done = append(file, bytes); !done) return cannot_write(done.error());
  return file.written();
}

Status RankLogs::append(File& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(file.descriptor.get(), bytes.data(), bytes.size(), file.size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Error{std::strerror(errno)};
    bytes.remove_prefix(static_cast<std::size_t>(put));
    file.size += put;
  }
  return Done{};
}

// What was acknowledged once and is not here any more (this machine lost power, or somebody cut the
// file) is not on the node either. It takes no room: a node that counts wrongly, or means harm,
// makes no file larger than what it sends.
Status RankLogs::note_gap(File& file, std::int64_t to) {
  const std::string words = "\n[muster: " + std::to_string(to - file.written()) +
                            " bytes of the output were lost with this log]\n";
  const std::int64_t lost = to - file.size - static_cast<std::int64_t>(words.size());
  // First: with the note alone the log lacks a line, with the line alone the output its place.
  if (!replace_file(file.note_of_loss, std::to_string(lost) + "\n", 0600, Durable::on_disk)) {
    return Error{std::strerror(errno)};
  }
  file.lost = lost;
  return append(file, words);
}

Status RankLogs::append_metrics(const JobId& job, AttemptId attempt, std::string_view lines) {
  const auto path = home_.metrics(job, attempt);
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  constexpr int appending = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
  const Fd file(::open(path.c_str(), appending, 0600));
  if (!file) return failed("open", path);
  return write_all(file.get(), lines) ? Status(Done{}) : failed("write", path);
}

void RankLogs::close_attempt(const JobId& job, AttemptId attempt) {
  for (auto it = files_.lower_bound(Key{job.value, attempt.value, -1}); it != files_.end();) {
    if (std::get<0>(it->first) != job.value || std::get<1>(it->first) != attempt.value) break;
    it = files_.erase(it);
  }
}

}  // namespace muster
