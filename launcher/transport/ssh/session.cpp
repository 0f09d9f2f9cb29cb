#include "launcher/transport/ssh/session.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "launcher/transport/link/attach_failure.h"
#include "scheduler/model/result.h"

namespace muster {

namespace {

constexpr std::size_t socket_read_bytes = 64 * 1024;
constexpr std::size_t max_unread_bytes = 1024 * 1024;  // then TCP holds the sender back

// What libssh2 1.10 offers, cheapest first. With P-256 a login costs sshd 1 to 2 ms less than with
// X25519, for which it has portable code of its own. AES in counter mode and SHA-2 run in hardware.
// There is no AEAD cipher.
struct Preference {
  int method;
  const char* names;
};
constexpr Preference preferences[] = {
    {LIBSSH2_METHOD_KEX,
     "ecdh-sha2-nistp256,curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp384,"
     "ecdh-sha2-nistp521,diffie-hellman-group-exchange-sha256"},
    {LIBSSH2_METHOD_CRYPT_CS, "aes128-ctr,aes192-ctr,aes256-ctr"},
    {LIBSSH2_METHOD_CRYPT_SC, "aes128-ctr,aes192-ctr,aes256-ctr"},
    {LIBSSH2_METHOD_MAC_CS, "hmac-sha2-256,hmac-sha2-512,hmac-sha1"},
    {LIBSSH2_METHOD_MAC_SC, "hmac-sha2-256,hmac-sha2-512,hmac-sha1"},
};

void set_option(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);  // a hint: older kernels do without
}

// The kernel probes an idle peer and gives up on one that stays silent. libssh2's own keepalive is
// of no use here: it keeps every answer in a list for ever.
void watch_for_silence(int socket, std::chrono::milliseconds silence) {
  const int seconds = std::max<int>(3, static_cast<int>(silence.count() / 1000));
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds / 3);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 6));
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000);
}

// Which of the two calls there is without a warning depends on the version.
template <class Function>
void set_callback(LIBSSH2_SESSION* session, int kind, Function* function) {
#if LIBSSH2_VERSION_NUM >= 0x010b01
  libssh2_session_callback_set2(session, kind, reinterpret_cast<libssh2_cb_generic*>(function));
#else
  libssh2_session_callback_set(session, kind, reinterpret_cast<void*>(function));
#endif
}

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

  void listen() { session_->on_progress(while_alive(weak_from_this(), &Shell::advance)); }

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

SshSession::SshSession(boost::asio::io_context& io)
    : io_(io), socket_(io), buffer_(std::make_unique_for_overwrite<char[]>(socket_read_bytes)) {
  static const int begun = libssh2_init(0);
  check(begun == 0, "libssh2_init failed");
  session_ = libssh2_session_init_ex(
      [](size_t size, void** self) { return memory_of(self).allocate(size); },
      [](void* block, void** self) { memory_of(self).release(block); },
      [](void* block, size_t size, void** self) { return memory_of(self).resize(block, size); },
      this);
  check(session_ != nullptr, "libssh2 has no memory for a session");
  libssh2_session_set_blocking(session_, 0);
  for (const Preference& each : preferences) {
    libssh2_session_method_pref(session_, each.method, each.names);
  }
  set_callback(session_, LIBSSH2_CALLBACK_RECV, &receive);
  set_callback(session_, LIBSSH2_CALLBACK_SEND, &transmit);
}

SshSession::~SshSession() {
  close("no longer needed");
  // Closed, so nothing below waits for an answer; freeing still goes in several steps.
  constexpr int most_steps = 100;
  for (int i = 0; i < most_steps && libssh2_session_free(session_) == LIBSSH2_ERROR_EAGAIN; ++i) {
  }
}

SessionMemory& SshSession::memory_of(void** self) {
  return static_cast<SshSession*>(*self)->memory_;
}

ssize_t SshSession::receive(libssh2_socket_t, void* buffer, size_t size, int, void** abstract) {
  auto& self = *static_cast<SshSession*>(*abstract);
  const std::size_t count = std::min(size, self.unread_bytes());
  if (count == 0) return self.is_closed() ? 0 : -EAGAIN;
  std::memcpy(buffer, self.input_.data() + self.input_at_, count);
  self.input_at_ += count;
  if (self.input_at_ == self.input_.size()) {
    self.input_.clear();
    self.input_at_ = 0;
  }
  return static_cast<ssize_t>(count);
}

ssize_t SshSession::transmit(libssh2_socket_t, const void* bytes, size_t size, int,
                             void** abstract) {
  auto& self = *static_cast<SshSession*>(*abstract);
  if (self.is_closed()) return -EPIPE;
  self.output_.append(static_cast<const char*>(bytes), size);
  return static_cast<ssize_t>(size);
}

void SshSession::begin(std::chrono::milliseconds silence) {
  boost::system::error_code ignored;
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  watch_for_silence(handle(), silence);
  read();
  wake();
}

void SshSession::on_progress(std::function<void()> call) {
  on_progress_ = call ? std::make_shared<std::function<void()>>(std::move(call)) : nullptr;
}

void SshSession::wake() {
  if (std::exchange(awake_, true)) return;
  boost::asio::post(socket_.get_executor(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->awake_ = false;
    self->progress();
  });
}

void SshSession::progress() {
  if (const auto call = on_progress_) (*call)();
  send();
  if (!reading_ && !is_closed() && unread_bytes() < max_unread_bytes) read();
}

void SshSession::read() {
  reading_ = true;
  socket_.async_read_some(
      boost::asio::buffer(buffer_.get(), socket_read_bytes),
      [weak = weak_from_this()](boost::system::error_code error, std::size_t size) {
        const auto self = weak.lock();
        if (!self || self->is_closed()) return;
        self->reading_ = false;
        if (error) {
          const bool is_end = error == boost::asio::error::eof;
          self->close(is_end ? "the host closed the connection" : error.message(),
                      is_end || error == boost::asio::error::connection_reset);
        } else {
          self->input_.append(self->buffer_.get(), size);
        }
        self->progress();
      });
}

void SshSession::send() {
  if (!sending_.empty() || output_.empty() || is_closed()) return;
  sending_.swap(output_);
  boost::asio::async_write(socket_, boost::asio::buffer(sending_),
                           [weak = weak_from_this()](boost::system::error_code error, std::size_t) {
                             const auto self = weak.lock();
                             if (!self || self->is_closed()) return;
                             self->sending_.clear();
                             if (error) self->close(error.message());
                             self->progress();
                           });
}

void SshSession::close(const std::string& reason, bool is_by_host) {
  if (is_closed()) return;
  closed_ = Closed{reason, is_by_host};
  boost::system::error_code ignored;
  socket_.close(ignored);
}

std::string SshSession::methods() const {
  std::string all;
  for (const int method : {LIBSSH2_METHOD_KEX, LIBSSH2_METHOD_HOSTKEY, LIBSSH2_METHOD_CRYPT_SC,
                           LIBSSH2_METHOD_MAC_SC}) {
    const char* name = libssh2_session_methods(session_, method);
    if (name != nullptr) all += (all.empty() ? "" : " ") + std::string(name);
  }
  return all;
}

std::string SshSession::last_error() {
  char* text = nullptr;
  libssh2_session_last_error(session_, &text, nullptr, 0);
  return text == nullptr ? "" : text;
}

SessionMemory::~SessionMemory() {
  for (void* block : blocks_) std::free(block);
}

void* SessionMemory::resize(void* block, std::size_t bytes) {
  auto known = blocks_.extract(block);
  void* moved = std::realloc(block, std::max<std::size_t>(bytes, 1));
  if (moved != nullptr) {
    blocks_.insert(moved);
  } else {
    blocks_.insert(std::move(known));
  }
  return moved;
}

void SessionMemory::release(void* block) {
  blocks_.erase(block);
  std::free(block);
}

std::shared_ptr<RemoteShell> make_ssh_shell(std::shared_ptr<SshSession> session) {
  auto shell = std::make_shared<Shell>(std::move(session));
  shell->listen();
  return shell;
}

}  // namespace muster
