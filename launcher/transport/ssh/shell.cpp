#include "launcher/transport/ssh/session.h"

#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "launcher/transport/link/attach_failure.h"

namespace muster {
namespace {

constexpr std::size_t max_unsent_bytes = 512 * 1024;  // in our buffer; the rest stays in the queue
constexpr std::size_t turn_bytes = 1024 * 1024;       // then the other hosts get their turn
constexpr std::size_t channel_read_bytes = 64 * 1024;

class Shell;

//  opening ──► requesting ──► running ──► closing ──► ended
// From every state to ended when the session closes or the owner loses interest.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  Channel(std::shared_ptr<SshSession> session, std::shared_ptr<Shell> shell, std::string command)
      : session_(std::move(session)), shell_(std::move(shell)), command_(std::move(command)) {}

  void handle(RemoteProcess::Handlers handlers) {
    handlers_ = std::make_shared<RemoteProcess::Handlers>(std::move(handlers));
  }
  void write(std::string bytes);
  void close_stdin();
  std::size_t queued_bytes() const {
    return step_ == Step::ended ? 0 : queued_bytes_ + session_->unsent_bytes();
  }
  void pause(bool is_paused) {
    paused_ = is_paused;
    session_->wake();
  }
  void advance();
  void abandon();

 private:
  enum class Step { opening, requesting, running, closing, ended };

  void open();
  void request();
  void read();
  // False: nothing more to read now.
  bool read_stream(int stream, std::size_t& budget_bytes);
  void send();
  void wait_for_exit();
  void failed(long error, const char* what);
  void exited(const RemoteExit& exit);

  std::shared_ptr<SshSession> session_;
  std::shared_ptr<Shell> shell_;
  std::string command_;
  LIBSSH2_CHANNEL* channel_ = nullptr;  // freed with the session
  Step step_ = Step::opening;
  std::shared_ptr<RemoteProcess::Handlers> handlers_ = std::make_shared<RemoteProcess::Handlers>();
  std::deque<std::string> queue_;
  std::size_t sent_of_front_ = 0;
  std::size_t queued_bytes_ = 0;
  bool stdin_ends_ = false;
  bool eof_sent_ = false;
  bool paused_ = false;
};

class Shell final : public RemoteShell, public std::enable_shared_from_this<Shell> {
 public:
  explicit Shell(std::shared_ptr<SshSession> session) : session_(std::move(session)) {}
  std::unique_ptr<RemoteProcess> run(const std::string& command) override;

  void listen() {
    session_->on_progress([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->advance();
    });
  }

 private:
  void advance() {
    const auto channels = channels_;  // a handler may run another command
    for (const auto& weak : channels) {
      if (const auto channel = weak.lock()) channel->advance();
    }
    std::erase_if(channels_, [](const auto& weak) { return weak.expired(); });
  }

  std::shared_ptr<SshSession> session_;
  std::vector<std::weak_ptr<Channel>> channels_;
};

void Channel::write(std::string bytes) {
  if (bytes.empty() || stdin_ends_ || step_ == Step::ended) return;
  queued_bytes_ += bytes.size();
  queue_.push_back(std::move(bytes));
  session_->wake();
}

void Channel::close_stdin() {
  stdin_ends_ = true;
  session_->wake();
}

void Channel::advance() {
  const auto self = shared_from_this();  // a handler may drop the owner
  if (step_ == Step::opening) open();
  if (step_ == Step::requesting) request();
  if (step_ == Step::running) read();
  if (step_ == Step::running) send();
  if (step_ == Step::closing) wait_for_exit();
  if (step_ != Step::ended && session_->is_closed()) {
    exited({std::nullopt, session_->close_reason()});
  }
}

void Channel::open() {
  channel_ = libssh2_channel_open_session(session_->get());
  if (channel_ == nullptr) {
    const int error = libssh2_session_last_errno(session_->get());
    if (error != LIBSSH2_ERROR_EAGAIN) failed(error, "session refused");
    return;
  }
  step_ = Step::requesting;
}

void Channel::request() {
  const int result = libssh2_channel_process_startup(channel_, "exec", 4, command_.data(),
                                                     static_cast<unsigned>(command_.size()));
  if (result == LIBSSH2_ERROR_EAGAIN) return;
  if (result != 0) return failed(result, "the host runs no commands for this account");
  step_ = Step::running;
}

// libssh2 gives the host no more room than it had while nobody reads.
void Channel::read() {
  if (paused_) return;
  std::size_t budget_bytes = turn_bytes;
  const bool more_output = read_stream(0, budget_bytes);
  if (step_ != Step::running || paused_) return;
  const bool more_errors = read_stream(SSH_EXTENDED_DATA_STDERR, budget_bytes);
  if (step_ != Step::running) return;
  if (more_output || more_errors) return session_->wake();
  if (libssh2_channel_eof(channel_) == 1) step_ = Step::closing;
}

bool Channel::read_stream(int stream, std::size_t& budget_bytes) {
  std::array<char, channel_read_bytes> buffer;
  while (budget_bytes > 0) {
    const ssize_t size = libssh2_channel_read_ex(channel_, stream, buffer.data(), buffer.size());
    if (size == 0 || size == LIBSSH2_ERROR_EAGAIN) return false;
    if (size < 0) {
      failed(size, "the session broke");
      return false;
    }
    const auto count = static_cast<std::size_t>(size);
    budget_bytes -= std::min(budget_bytes, count);
    const auto handlers = handlers_;
    if (stream == 0 && handlers->on_stdout) {
      handlers->on_stdout(std::as_bytes(std::span(buffer.data(), count)));
    } else if (stream != 0 && handlers->on_stderr) {
      handlers->on_stderr({buffer.data(), count});
    }
    if (step_ != Step::running || paused_) return false;
  }
  return true;
}

void Channel::send() {
  const bool had_some = !queue_.empty();
  while (!queue_.empty() && session_->unsent_bytes() < max_unsent_bytes) {
    const std::string& front = queue_.front();
    const ssize_t size = libssh2_channel_write(channel_, front.data() + sent_of_front_,
                                               front.size() - sent_of_front_);
    if (size == LIBSSH2_ERROR_EAGAIN) return;
    if (size < 0) return;  // the other side reads no more; its exit tells why
    sent_of_front_ += static_cast<std::size_t>(size);
    queued_bytes_ -= static_cast<std::size_t>(size);
    if (sent_of_front_ < front.size()) continue;
    queue_.pop_front();
    sent_of_front_ = 0;
  }
  if (!queue_.empty()) return;
  if (stdin_ends_) {
    if (!eof_sent_) eof_sent_ = libssh2_channel_send_eof(channel_) == 0;
  } else if (const auto handlers = handlers_; had_some && handlers->on_drained) {
    handlers->on_drained();
  }
}

void Channel::wait_for_exit() {
  if (libssh2_channel_wait_closed(channel_) == LIBSSH2_ERROR_EAGAIN) return;
  char* signal = nullptr;
  libssh2_channel_get_exit_signal(channel_, &signal, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (signal == nullptr) return exited({libssh2_channel_get_exit_status(channel_), ""});
  exited({std::nullopt, "killed by signal " + shown_text(signal)});
  libssh2_free(session_->get(), signal);
}

void Channel::failed(long error, const char* what) {
  if (session_->is_closed()) return exited({std::nullopt, session_->close_reason()});
  const std::string detail = session_->last_error();
  if (error == LIBSSH2_ERROR_SOCKET_DISCONNECT) session_->close("the host closed the connection");
  exited({std::nullopt, std::string(what) + (detail.empty() ? "" : ": " + detail)});
}

void Channel::exited(const RemoteExit& exit) {
  step_ = Step::ended;
  const auto handlers = handlers_;
  if (handlers->on_exit) handlers->on_exit(exit);
}

void Channel::abandon() {
  handlers_ = std::make_shared<RemoteProcess::Handlers>();
  if (channel_ != nullptr && step_ != Step::ended) libssh2_channel_close(channel_);
  step_ = Step::ended;
  session_->wake();
}

std::unique_ptr<RemoteProcess> Shell::run(const std::string& command) {
  auto channel = std::make_shared<Channel>(session_, shared_from_this(), command);
  channels_.push_back(channel);
  session_->wake();
  return std::make_unique<OwnedProcess<Channel>>(std::move(channel));
}

}  // namespace

std::shared_ptr<RemoteShell> make_ssh_shell(std::shared_ptr<SshSession> session) {
  auto shell = std::make_shared<Shell>(std::move(session));
  shell->listen();
  return shell;
}

}  // namespace muster
