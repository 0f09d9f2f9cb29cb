#include "launcher/agent/keeper/spool.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "scheduler/text/text.h"

namespace muster {

namespace {

// Freeing is done in steps, so that acknowledgements cost one small write each and not a hole each.
constexpr std::int64_t free_step_bytes = 4 << 20;
// Kept behind the acknowledged end: the last lines of a rank that failed are read from there.
constexpr std::int64_t kept_tail_bytes = 64 << 10;

constexpr const char* file_end = ".out";
constexpr const char* pipe_end = ".pipe";

std::string base_name(RankId rank) {
  return rank == mpirun_rank ? "mpirun" : "rank-" + std::to_string(rank.value);
}

std::int64_t read_acked(int fd) {
  std::string text;
  if (!read_at(fd, 0, 32, text)) return 0;
  return std::max(0ll, std::atoll(text.c_str()));
}

std::int64_t file_bytes(int fd) {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 ? facts.st_size : 0;
}

std::string pipe_path(std::string path) {
  return path.replace(path.size() - std::string_view(file_end).size(), std::string::npos, pipe_end);
}

constexpr std::size_t copy_bytes = 64u << 10;
// Below this the kernel's own size is as good.
constexpr std::int64_t least_pipe_bytes = 128 << 10;

std::int64_t enlarge(int fd) {
  for (std::int64_t size = output_pipe_bytes; size >= least_pipe_bytes; size /= 2) {
    if (::fcntl(fd, F_SETPIPE_SZ, static_cast<int>(size)) >= 0) break;
  }
  return ::fcntl(fd, F_GETPIPE_SZ);
}

}  // namespace

Spool::Spool(RankId rank, std::string path, Fd file, Fd ack_file)
    : rank_(rank), path_(std::move(path)), file_(std::move(file)), ack_file_(std::move(ack_file)) {
  size_ = file_bytes(file_.get());
  acked_ = sent_ = std::min(read_acked(ack_file_.get()), size_);
}

Result<Spool> Spool::open(const std::string& directory, RankId rank) {
  std::string path = directory + "/" + base_name(rank) + file_end;
  // Not for appending: splice refuses that.
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return system_error("open the output spool " + path);
  Fd acks(::open((path + ".acked").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!acks) return system_error("open " + path + ".acked");
  Spool spool(rank, std::move(path), std::move(file), std::move(acks));
  if (spool.acked_ == 0) spool.save_acked();  // has its space before the disk is full
  if (::access(pipe_path(spool.path_).c_str(), F_OK) == 0) {
    if (Status opened = spool.make_pipe(); !opened) return opened.error();
  }
  return spool;
}

std::vector<RankId> Spool::ranks_in(const std::string& directory) {
  std::vector<RankId> ranks;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(file_end)) continue;
    if (name == base_name(mpirun_rank) + file_end) ranks.push_back(mpirun_rank);
    if (name.starts_with("rank-")) ranks.push_back(RankId{std::atoll(name.c_str() + 5)});
  }
  return ranks;
}

Status Spool::make_pipe() {
  auto pipe = OutputPipe::open(pipe_path(path_));
  if (!pipe) return pipe.error();
  pipe_ = std::move(*pipe);
  return Done{};
}

void Spool::remove_pipe() {
  if (pipe_) pipe_->unlink();
  pipe_.reset();
}

void Spool::remove() {
  remove_pipe();
  ::unlink(path_.c_str());
  ::unlink((path_ + ".acked").c_str());
}

Result<std::int64_t> Spool::take_in() {
  if (!pipe_) return 0;
  auto moved = pipe_->move_to(file_.get(), size_, output_pipe_bytes);
  if (!moved || *moved == 0) return moved;
  size_ += *moved;
  ahead_.clear();
  passed_.clear();
  return moved;
}

bool Spool::look_ahead() {
  if (!pipe_ || !ahead_.empty()) return false;
  ahead_ = pipe_->peek();
  return !ahead_.empty();
}

// The file becomes longer without taking space. An agent that is killed before the pipe has let go
// repeats the bytes.
void Spool::pass(std::int64_t bytes) {
  size_ += bytes;
  [[maybe_unused]] const int longer = ::ftruncate(file_.get(), size_);
  save_acked();
  pipe_->drop(bytes);
  const auto count = static_cast<std::size_t>(bytes);
  passed_.append(ahead_, 0, count);
  ahead_.erase(0, count);
  if (passed_.size() > kept_tail_bytes) passed_.erase(0, passed_.size() - kept_tail_bytes);
}

Status Spool::take_in_to(std::int64_t size) {
  while (size_ < size) {
    const auto moved = take_in();
    if (!moved) return moved.error();
    if (*moved == 0) break;  // a rank can read its own output
  }
  return Done{};
}

std::string Spool::take_chunk() {
  const std::int64_t window = is_of_command(rank_) ? command_window_bytes : output_window_bytes;
  const std::int64_t room = acked_ + window - sent_;
  const bool is_ahead = sent_ >= size_;
  const auto ahead = static_cast<std::int64_t>(ahead_.size());
  const std::int64_t end = is_ahead ? size_ + ahead : size_;
  const std::int64_t wanted = std::min({room, output_chunk_bytes, end - sent_});
  std::string chunk;
  if (wanted <= 0) return chunk;
  if (is_ahead) {
    chunk =
        ahead_.substr(static_cast<std::size_t>(sent_ - size_), static_cast<std::size_t>(wanted));
  } else if (!read_at(file_.get(), sent_, static_cast<std::size_t>(wanted), chunk)) {
    chunk.clear();
  }
  sent_ += static_cast<std::int64_t>(chunk.size());
  return chunk;
}

void Spool::save_acked() const {
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%019lld\n", static_cast<long long>(acked_));
  // A full disk loses nothing here: the controller says again at its next connection what it has.
  [[maybe_unused]] const ssize_t kept =
      ::pwrite(ack_file_.get(), text, static_cast<std::size_t>(length), 0);
}

void Spool::acknowledge(std::int64_t offset) {
  offset = std::min(offset, size_ + static_cast<std::int64_t>(ahead_.size()));
  if (offset <= acked_) return;
  acked_ = offset;
  sent_ = std::max(sent_, acked_);
  if (acked_ > size_)
    pass(acked_ - size_);
  else
    save_acked();
  const std::int64_t free_to = (acked_ - kept_tail_bytes) / 4096 * 4096;
  if (free_to - freed_ < free_step_bytes) return;
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, freed_, free_to - freed_);
  freed_ = free_to;
}

std::vector<std::string> Spool::last_lines(std::size_t count) const {
  const std::int64_t start = std::max<std::int64_t>(freed_, size_ - kept_tail_bytes);
  std::string text = passed_;
  if (text.empty() && !read_at(file_.get(), start, kept_tail_bytes, text)) text.clear();
  return last_utf8_lines(text, count);
}

OutputPipe::OutputPipe(std::string path, Fd fd)
    : path_(std::move(path)), fd_(std::move(fd)), capacity_(enlarge(fd_.get())) {}

Result<OutputPipe> OutputPipe::open(std::string path) {
  if (::mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST) {
    return system_error("make the pipe " + path);
  }
  Fd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return system_error("open the pipe " + path);
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0 || !S_ISFIFO(facts.st_mode)) {
    return Error{path + " exists and is no pipe: remove it"};
  }
  return OutputPipe(std::move(path), std::move(fd));
}

std::int64_t OutputPipe::waiting_bytes() const {
  int count = 0;
  if (::ioctl(fd_.get(), FIONREAD, &count) != 0) count = 0;
  return count + static_cast<std::int64_t>(copied_.size());
}

Result<std::int64_t> OutputPipe::move_to(int file, std::int64_t offset, std::int64_t limit_bytes) {
  if (!copied_.empty()) return copy_to(file, offset);
  while (true) {
    loff_t at = offset;
    const ssize_t moved = ::splice(fd_.get(), nullptr, file, &at,
                                   static_cast<std::size_t>(limit_bytes), SPLICE_F_NONBLOCK);
    if (moved >= 0) return moved;
    if (errno == EAGAIN) return 0;
    if (errno == EINVAL) return copy_to(file, offset);
    if (errno != EINTR) return system_error("write output from " + path_);
  }
}

Result<std::int64_t> OutputPipe::copy_to(int file, std::int64_t offset) {
  if (copied_.empty()) {
    copied_.resize(copy_bytes);
    const ssize_t got = ::read(fd_.get(), copied_.data(), copied_.size());
    copied_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  }
  if (copied_.empty()) return 0;
  const ssize_t put = ::pwrite(file, copied_.data(), copied_.size(), offset);
  if (put < 0) return system_error("write output from " + path_);
  copied_.erase(0, static_cast<std::size_t>(put));
  return put;
}

// tee(2) fills another pipe and leaves this one as it is.
std::string OutputPipe::peek() const {
  if (!copied_.empty()) return copied_;
  const auto other = make_pipe();
  if (!other) return "";
  const int in = other->write_end.get();
  ::fcntl(in, F_SETPIPE_SZ, static_cast<int>(capacity_));
  const ssize_t there =
      ::tee(fd_.get(), in, static_cast<std::size_t>(capacity_), SPLICE_F_NONBLOCK);
  std::string bytes(there > 0 ? static_cast<std::size_t>(there) : 0, '\0');
  const ssize_t got = ::read(other->read_end.get(), bytes.data(), bytes.size());
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

void OutputPipe::drop(std::int64_t bytes) {
  auto left = static_cast<std::size_t>(bytes);
  const std::size_t copied = std::min(left, copied_.size());
  copied_.erase(0, copied);
  left -= copied;
  std::string dropped(std::min(left, copy_bytes), '\0');
  while (left > 0) {
    const ssize_t got = ::read(fd_.get(), dropped.data(), std::min(left, dropped.size()));
    if (got <= 0) return;  // somebody else has taken it
    left -= static_cast<std::size_t>(got);
  }
}

void OutputPipe::unlink() const {
  ::unlink(path_.c_str());
}

// Handlers hold it weakly: one that is on its way when the watch goes finds nothing.
struct PipeWatch::State : std::enable_shared_from_this<State> {
  State(boost::asio::io_context& io, int fd, std::function<void()> told)
      : pipe(io, fd), pause(io), on_bytes(std::move(told)) {}
  ~State() { pipe.release(); }

  void wait() {
    pipe.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [held = weak_from_this()](const boost::system::error_code& error) {
                      const auto state = held.lock();
                      if (error || !state) return;
                      state->is_waiting = false;
                      state->on_bytes();
                    });
  }

  boost::asio::posix::stream_descriptor pipe;
  boost::asio::steady_timer pause;
  std::function<void()> on_bytes;
  bool is_waiting = false;
};

PipeWatch::PipeWatch(boost::asio::io_context& io, int pipe, std::function<void()> on_bytes)
    : state_(std::make_shared<State>(io, pipe, std::move(on_bytes))) {}

PipeWatch::~PipeWatch() = default;

void PipeWatch::report_next(std::chrono::milliseconds pause) {
  if (state_->is_waiting) return;
  state_->is_waiting = true;
  if (pause.count() == 0) return state_->wait();
  state_->pause.expires_after(pause);
  state_->pause.async_wait([held = std::weak_ptr(state_)](const boost::system::error_code& error) {
    if (const auto state = held.lock(); state && !error) state->wait();
  });
}

}  // namespace muster
