#include "launcher/agent/spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "launcher/agent/system_error_text.h"
#include "launcher/agent/utf8_lines.h"

namespace muster {

namespace {

// Freeing is done in steps, so that acknowledgements cost one small write each and not a hole each.
constexpr std::int64_t free_step_bytes = 4 << 20;
// Kept behind the acknowledged end: the last lines of a rank that failed are read from there.
constexpr std::int64_t kept_tail_bytes = 64 << 10;

std::int64_t read_acked(int fd) {
  char text[32] = {};
  if (::pread(fd, text, sizeof text - 1, 0) <= 0) return 0;
  return std::max<std::int64_t>(0, std::atoll(text));
}

}  // namespace

std::string Spool::file_name(RankId rank) {
  return rank == mpirun_rank ? "mpirun.out" : "rank-" + std::to_string(rank.value) + ".out";
}

Spool::Spool(RankId rank, std::string path, Fd file, Fd ack_file)
    : rank_(rank),
      path_(std::move(path)),
      file_(std::move(file)),
      ack_file_(std::move(ack_file)),
      acked_(read_acked(ack_file_.get())),
      sent_(acked_) {}

Result<Spool> Spool::open(const std::string& directory, RankId rank) {
  std::string path = directory + "/" + file_name(rank);
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file) return system_error("open the output spool " + path);
  Fd acks(::open((path + ".acked").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!acks) return system_error("open " + path + ".acked");
  return Spool(rank, std::move(path), std::move(file), std::move(acks));
}

std::int64_t Spool::size() const {
  struct stat facts {};
  return ::fstat(file_.get(), &facts) == 0 ? facts.st_size : 0;
}

std::string Spool::take_chunk() {
  const std::int64_t room = acked_ + output_window_bytes - sent_;
  const std::int64_t wanted = std::min({room, output_chunk_bytes, size() - sent_});
  std::string chunk;
  if (wanted <= 0) return chunk;
  chunk.resize(static_cast<std::size_t>(wanted));
  const ssize_t got = ::pread(file_.get(), chunk.data(), chunk.size(), sent_);
  chunk.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  sent_ += static_cast<std::int64_t>(chunk.size());
  return chunk;
}

void Spool::acknowledge(std::int64_t offset) {
  offset = std::min(offset, size());
  if (offset <= acked_) return;
  acked_ = offset;
  sent_ = std::max(sent_, acked_);
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%019lld\n", static_cast<long long>(acked_));
  // A full disk loses nothing here: the controller says again at its next connection what it has.
  [[maybe_unused]] const ssize_t kept =
      ::pwrite(ack_file_.get(), text, static_cast<std::size_t>(length), 0);
  const std::int64_t free_to = (acked_ - kept_tail_bytes) / 4096 * 4096;
  if (free_to - freed_ < free_step_bytes) return;
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, freed_, free_to - freed_);
  freed_ = free_to;
}

std::vector<std::string> Spool::last_lines(std::size_t count) const {
  const std::int64_t end = size();
  const std::int64_t start = std::max(freed_, std::max<std::int64_t>(0, end - kept_tail_bytes));
  std::string text(static_cast<std::size_t>(end - start), '\0');
  const ssize_t got = ::pread(file_.get(), text.data(), text.size(), start);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return last_utf8_lines(text, count);
}

}  // namespace muster
