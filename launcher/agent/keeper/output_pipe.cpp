#include "launcher/agent/keeper/output_pipe.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

namespace muster {

namespace {

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
