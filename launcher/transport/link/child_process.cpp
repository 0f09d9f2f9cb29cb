#include "launcher/transport/link/child_process.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "launcher/transport/link/byte_stream.h"

namespace muster {
namespace {

constexpr std::chrono::milliseconds reap_interval{5};  // only between end of output and exit
// One that was killed is dead at once, or hangs in the kernel, or runs as somebody else.
constexpr std::chrono::milliseconds killed_interval{100};

// Standard output and error end first, in any order; then the exit status is collected.
class Child : public std::enable_shared_from_this<Child> {
 public:
  explicit Child(boost::asio::io_context& io) : io_(io), errors_(io), reap_timer_(io) {}

  void start(std::span<const std::string> argv);
  void handle(RemoteProcess::Handlers handlers) {
    handlers_ = std::make_shared<RemoteProcess::Handlers>(std::move(handlers));
  }
  void write(std::string bytes) {
    if (stream_) stream_->write(std::move(bytes));
  }
  void close_stdin() {
    if (stream_) stream_->finish_writing();
  }
  std::size_t queued_bytes() const { return stream_ ? stream_->queued_bytes() : 0; }
  void pause(bool is_paused) {
    if (stream_) stream_->pause(is_paused);
  }
  void abandon();

 private:
  Status open(std::span<const std::string> argv);
  void read_errors();
  void part_ended();
  void reap();
  void exited(const RemoteExit& exit);
  void reap_killed();

  boost::asio::io_context& io_;
  std::shared_ptr<RemoteProcess::Handlers> handlers_ = std::make_shared<RemoteProcess::Handlers>();
  std::shared_ptr<ByteStream> stream_;
  boost::asio::posix::stream_descriptor errors_;
  std::array<char, 4096> error_buffer_{};
  boost::asio::steady_timer reap_timer_;
  pid_t pid_ = 0;
  int open_parts_ = 2;
};

void Child::start(std::span<const std::string> argv) {
  if (const Status status = open(argv); !status) {
    boost::asio::post(io_, [self = shared_from_this(), reason = status.error().message] {
      if (self->handlers_) self->exited({std::nullopt, reason});
    });
    return;
  }
  stream_->start({[this](std::span<const std::byte> bytes) {
                    const auto handlers = handlers_;
                    if (handlers && handlers->on_stdout) handlers->on_stdout(bytes);
                  },
                  [this] {
                    const auto handlers = handlers_;
                    if (handlers && handlers->on_drained) handlers->on_drained();
                  },
                  [self = weak_from_this()](const std::string&) {
                    if (const auto child = self.lock()) child->part_ended();
                  }});
  read_errors();
}

Status Child::open(std::span<const std::string> argv) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return Error{std::string("cannot make a socket pair: ") + std::strerror(errno)};
  }
  Fd ours(pair[0]), theirs(pair[1]);
  auto errors = make_pipe();
  if (!errors) return Error{std::string("cannot make a pipe: ") + std::strerror(errno)};
  const std::array inherited{Inherit{theirs.get(), 0}, Inherit{theirs.get(), 1},
                             Inherit{errors->write_end.get(), 2}};
  const Result<pid_t> child = spawn(argv, inherited);
  if (!child) return child.error();
  pid_ = *child;
  using Protocol = boost::asio::local::stream_protocol;
  stream_ = std::make_shared<ByteStream>(Protocol::socket(io_, Protocol(), ours.release()));
  errors_.assign(errors->read_end.release());
  return Done{};
}

void Child::read_errors() {
  errors_.async_read_some(
      boost::asio::buffer(error_buffer_),
      [self = shared_from_this()](boost::system::error_code error, std::size_t size) {
        if (!self->handlers_) return;
        if (error) return self->part_ended();
        const auto handlers = self->handlers_;
        if (handlers->on_stderr) handlers->on_stderr({self->error_buffer_.data(), size});
        if (self->handlers_) self->read_errors();
      });
}

void Child::part_ended() {
  if (--open_parts_ == 0) reap();
}

void Child::reap() {
  int status = 0;
  const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
  if (reaped == 0) {
    reap_timer_.expires_after(reap_interval);
    reap_timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error && self->handlers_) self->reap();
    });
    return;
  }
  pid_ = 0;
  if (reaped > 0 && WIFEXITED(status)) return exited({WEXITSTATUS(status), ""});
  exited({std::nullopt, WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status))
                                            : std::string("its exit status is lost")});
}

void Child::exited(const RemoteExit& exit) {
  const auto handlers = std::exchange(handlers_, nullptr);
  if (handlers->on_exit) handlers->on_exit(exit);
}

void Child::abandon() {
  handlers_ = nullptr;
  if (stream_) stream_->close();
  boost::system::error_code ignored;
  errors_.close(ignored);
  reap_timer_.cancel();
  if (pid_ == 0) return;
  ::kill(-pid_, SIGKILL);  // it leads a session: its ProxyCommand goes, too
  reap_killed();
}

// Without holding up the caller.
void Child::reap_killed() {
  if (::waitpid(pid_, nullptr, WNOHANG) != 0) return;
  reap_timer_.expires_after(killed_interval);
  reap_timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error) self->reap_killed();
  });
}

class ChildShell final : public RemoteShell {
 public:
  ChildShell(boost::asio::io_context& io, std::vector<std::string> argv)
      : io_(io), argv_(std::move(argv)) {}

  std::unique_ptr<RemoteProcess> run(const std::string& command) override {
    std::vector<std::string> argv = argv_;
    argv.push_back(command);
    return start_child(io_, argv);
  }

 private:
  boost::asio::io_context& io_;
  std::vector<std::string> argv_;
};

}  // namespace

std::unique_ptr<RemoteProcess> start_child(boost::asio::io_context& io,
                                           std::span<const std::string> argv) {
  auto child = std::make_shared<Child>(io);
  child->start(argv);
  return std::make_unique<OwnedProcess<Child>>(std::move(child));
}

std::shared_ptr<RemoteShell> make_child_shell(boost::asio::io_context& io,
                                              std::vector<std::string> argv) {
  return std::make_shared<ChildShell>(io, std::move(argv));
}

std::shared_ptr<RemoteShell> make_local_shell(boost::asio::io_context& io) {
  return make_child_shell(io, {"/bin/sh", "-c"});
}

}  // namespace muster
