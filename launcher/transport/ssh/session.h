// One libssh2 session and its TCP socket. libssh2 never touches the socket: it reads from and
// writes to the two buffers here, and Asio moves them. So a libssh2 call can wait for input only,
// never for output, and half-sent packets (which libssh2 cannot interleave with others) do not
// exist. Private to launcher/transport; one thread.
#pragma once

#include <libssh2.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <variant>

#include <boost/asio/ip/tcp.hpp>

#include "launcher/transport/link/remote_process.h"
#include "launcher/transport/link/transport.h"
#include "launcher/transport/ssh/host_key_store.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/link.h"

namespace muster {

// The memory of one libssh2 session, given back as a whole at its end: libssh2 1.10 loses some
// blocks when a session is dropped in the middle of a key exchange, as busy hosts make it do.
class SessionMemory {
 public:
  SessionMemory() = default;
  SessionMemory(const SessionMemory&) = delete;
  ~SessionMemory();

  void* allocate(std::size_t bytes) { return resize(nullptr, bytes); }
  void* resize(void* block, std::size_t bytes);
  void release(void* block);

 private:
  std::unordered_set<void*> blocks_;
};

class SshSession : public std::enable_shared_from_this<SshSession> {
 public:
  explicit SshSession(boost::asio::io_context& io);
  SshSession(const SshSession&) = delete;
  ~SshSession();

  boost::asio::io_context& io() { return io_; }
  boost::asio::ip::tcp::socket& socket() { return socket_; }
  LIBSSH2_SESSION* get() { return session_; }
  libssh2_socket_t handle() { return socket_.is_open() ? socket_.native_handle() : -1; }

  // The socket is connected: start to read. `on_progress` is called, from the io_context, whenever
  // a libssh2 call that said EAGAIN may get further. `silence` bounds how long a dead network goes
  // unnoticed.
  void begin(std::chrono::milliseconds silence);
  void on_progress(std::function<void()> call);

  // Asks for one on_progress from the io_context, after something was queued.
  void wake();
  void close(const std::string& reason, bool is_by_host = false);
  bool is_closed() const { return closed_.has_value(); }
  std::string close_reason() const { return closed_ ? closed_->reason : ""; }
  // It answered, with an end or a reset.
  bool was_closed_by_host() const { return closed_ && closed_->is_by_host; }
  std::size_t unsent_bytes() const { return output_.size() + sending_.size(); }
  std::string last_error();
  std::string methods() const;  // what was agreed on with the host, for people; after the handshake
  void* allocate(std::size_t bytes) { return memory_.allocate(bytes); }  // libssh2 frees it

 private:
  struct Closed {
    std::string reason;
    bool is_by_host = false;
  };

  static SessionMemory& memory_of(void** self);
  static ssize_t receive(libssh2_socket_t socket, void* buffer, size_t size, int flags,
                         void** self);
  static ssize_t transmit(libssh2_socket_t socket, const void* bytes, size_t size, int flags,
                          void** self);
  std::size_t unread_bytes() const { return input_.size() - input_at_; }
  void read();
  void progress();
  void send();

  boost::asio::io_context& io_;
  boost::asio::ip::tcp::socket socket_;
  SessionMemory memory_;
  LIBSSH2_SESSION* session_;
  std::optional<Closed> closed_;
  std::shared_ptr<std::function<void()>> on_progress_;
  std::unique_ptr<char[]> buffer_;
  std::string input_;
  std::size_t input_at_ = 0;
  std::string output_;   // from libssh2, not yet given to the socket
  std::string sending_;  // the socket is writing it
  bool reading_ = false;
  bool awake_ = false;
};

// Runs commands over an authenticated session, one channel each. The session stays open as long as
// the shell or one of its processes.
std::shared_ptr<RemoteShell> make_ssh_shell(std::shared_ptr<SshSession> session);

// From a TCP connection to an authenticated session, on libssh2.
//
//   kex ──► host key ──► agent ──► key files ──► in
//    │          │                      │
//    ▼          ▼                      ▼
//  dropped   changed key       refused (perhaps only RSA keys, which libssh2 1.10 cannot use)

struct LoggedIn {};
// What a login tells besides its result; goes on where it is tried again.
struct LoginReport {
  PhaseTimer phases;                           // kex and auth
  std::optional<HostKeyPinned> first_contact;  // with the host
};
struct LoginDropped {  // before authentication, as an overloaded sshd does: try again
  std::string reason;
};
struct LoginNeedsOpenssh {  // libssh2 cannot, `ssh` might
  LinkFailure otherwise;
};
using LoginResult = std::variant<LoggedIn, LoginDropped, LoginNeedsOpenssh, LinkFailure>;

// A login goes on as long as somebody holds it. `target` has its user filled in; `host_keys` and
// `report` outlive the login.
std::shared_ptr<void> begin_login(std::shared_ptr<SshSession> session, const SshTarget& target,
                                  const SshSettings& settings, HostKeyStore& host_keys,
                                  LoginReport& report, std::function<void(LoginResult)> done);

}  // namespace muster
