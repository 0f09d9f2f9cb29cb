// The controller's Unix socket (0600 in the state directory): accepts commands of the same user and
// hands whole requests to the controller. Sessions live as long as their connection; the controller
// keeps weak references. One thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/transport/link/byte_stream.h"
#include "launcher/wire/client_message.h"
#include "launcher/wire/frame.h"
#include "scheduler/model/exit_code.h"
#include "scheduler/model/result.h"

namespace muster {

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Request = std::function<void(const std::shared_ptr<Session>&, ToController, std::string)>;
  using Closed = std::function<void(const std::shared_ptr<Session>&)>;

  Session(boost::asio::local::stream_protocol::socket socket, Request on_request, Closed on_closed);
  Session(const Session&) = delete;
  ~Session();
  void start();
  // A client that does not read is dropped at `queue_limit` rather than remembered without end.
  static constexpr std::size_t queue_limit_bytes = 64u << 20;
  void send(const FromController& message, std::string_view payload = {},
            std::size_t queue_limit = queue_limit_bytes);
  void finish();                                // closes after everything queued has been sent
  void answer(const FromController& message) {  // the last word
    send(message);
    finish();
  }
  void refuse(const std::string& why, ExitCode code = ExitCode::failure) {
    answer(Refused{why, static_cast<int>(code)});
  }
  std::size_t unread_bytes() const { return stream_ ? stream_->queued_bytes() : 0; }
  // Called once, when the client has read all that it was sent.
  void when_read(std::function<void()> then) { on_read_ = std::move(then); }

 private:
  void received(std::span<const std::byte> bytes);
  void drained();
  void close();

  std::shared_ptr<ByteStream> stream_;  // null: closed
  Request on_request_;
  Closed on_closed_;
  FrameReader reader_;
  std::function<void()> on_read_;
  bool finishing_ = false;
};

class RequestServer {
 public:
  RequestServer(boost::asio::io_context& io, Session::Request on_request,
                Session::Closed on_closed);
  Status listen(const std::filesystem::path& socket_path);
  std::size_t sessions() const { return sessions_.size(); }

 private:
  void accept();

  boost::asio::local::stream_protocol::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  Session::Request on_request_;
  Session::Closed on_closed_;
  std::set<std::shared_ptr<Session>> sessions_;
};

}  // namespace muster
