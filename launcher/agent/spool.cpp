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

struct Kept {
  long long acked = 0;
  long long base = 0;
};

// "<acked> <base>\n".
Kept read_kept(int fd) {
  Kept kept;
  std::string text;
  if (read_at(fd, 0, 64, text)) std::sscanf(text.c_str(), "%lld %lld", &kept.acked, &kept.base);
  return {std::max(0ll, kept.acked), std::max(0ll, kept.base)};
}

}  // namespace

std::string Spool::file_name(RankId rank) {
  return rank == mpirun_rank ? "mpirun.out" : "rank-" + std::to_string(rank.value) + ".out";
}

Spool::Spool(RankId rank, std::string path, Fd file, Fd ack_file)
    : rank_(rank),
      path_(std::move(path)),
      file_(std::move(file)),
      ack_file_(std::move(ack_file)) {
  const Kept kept = read_kept(ack_file_.get());
  acked_ = sent_ = kept.acked;
  base_ = kept.base;
}

Result<Spool> Spool::open(const std::string& directory, RankId rank) {
  std::string path = directory + "/" + file_name(rank);
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file) return system_error("open the output spool " + path);
  Fd acks(::open((path + ".acked").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!acks) return system_error("open " + path + ".acked");
  return Spool(rank, std::move(path), std::move(file), std::move(acks));
}

std::int64_t Spool::file_bytes() const {
  struct stat facts {};
  return ::fstat(file_.get(), &facts) == 0 ? facts.st_size : 0;
}

std::int64_t Spool::size() const {
  return base_ + file_bytes();
}

void Spool::notice_cut() {
  const std::int64_t now = file_bytes();
  if (now < seen_ || base_ + now < acked_) {
    base_ = sent_;
    freed_ = 0;
    save();
  }
  seen_ = now;
}

std::string Spool::take_chunk() {
  notice_cut();
  const std::int64_t room = acked_ + output_window_bytes - sent_;
  const bool is_gone = sent_ < base_;  // sent before the cut, and lost with a connection
  const std::int64_t end = is_gone ? base_ : base_ + seen_;
  const std::int64_t wanted = std::min({room, output_chunk_bytes, end - sent_});
  std::string chunk;
  if (wanted <= 0) return chunk;
  if (is_gone) {
    chunk.assign(static_cast<std::size_t>(wanted), '\n');  // the offsets behind stay true
  } else if (!read_at(file_.get(), sent_ - base_, static_cast<std::size_t>(wanted), chunk)) {
    chunk.clear();
  }
  sent_ += static_cast<std::int64_t>(chunk.size());
  return chunk;
}

void Spool::save() const {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "%019lld %019lld\n",
                                   static_cast<long long>(acked_), static_cast<long long>(base_));
  // A full disk loses nothing here: the controller says again at its next connection what it has.
  [[maybe_unused]] const ssize_t kept =
      ::pwrite(ack_file_.get(), text, static_cast<std::size_t>(length), 0);
}

void Spool::acknowledge(std::int64_t offset) {
  offset = std::min(offset, std::max(sent_, size()));
  if (offset <= acked_) return;
  acked_ = offset;
  sent_ = std::max(sent_, acked_);
  save();
  const std::int64_t free_to = (acked_ - base_ - kept_tail_bytes) / 4096 * 4096;
  if (free_to - freed_ < free_step_bytes) return;
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, freed_, free_to - freed_);
  freed_ = free_to;
}

std::vector<std::string> Spool::last_lines(std::size_t count) const {
  const std::int64_t start = std::max<std::int64_t>(freed_, file_bytes() - kept_tail_bytes);
  std::string text;
  if (!read_at(file_.get(), start, kept_tail_bytes, text)) text.clear();
  return last_utf8_lines(text, count);
}

}  // namespace muster
