// The controller's Unix socket (0600 in the state directory): accepts commands of the same user and
// hands whole requests to the controller. Sessions live as long as their connection; the controller
// keeps weak references. One thread.
#pragma once

#include <array>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

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
  void start() { read(); }
  void send(const FromController& message, std::string_view payload = {});
  void finish();                                // closes after everything queued has been sent
  void answer(const FromController& message) {  // the last word
    send(message);
    finish();
  }
  void refuse(const std::string& why, ExitCode code = ExitCode::failure) {
    answer(Refused{why, static_cast<int>(code)});
  }
  // Whether the client has read most of what it was sent.
  bool has_room() const;
  // Called once, as soon as it has room.
  void when_room(std::function<void()> then);

 private:
  void read();
  void write();
  void close();
  bool deliver_frames();

  boost::asio::local::stream_protocol::socket socket_;
  Request on_request_;
  Closed on_closed_;
  FrameReader reader_;
  std::array<std::byte, 65536> buffer_;
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  std::function<void()> on_room_;
  bool finishing_ = false;
};

class RequestServer {
 public:
  RequestServer(boost::asio::io_context& io, Session::Request on_request,
                Session::Closed on_closed);
  Status listen(const std::filesystem::path& socket_path);
  std::size_t sessions() const { return *sessions_; }

 private:
  void accept();

  boost::asio::local::stream_protocol::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  Session::Request on_request_;
  Session::Closed on_closed_;
  std::shared_ptr<std::size_t> sessions_ = std::make_shared<std::size_t>(0);
};

// Answers for clients that read slower than nodes answer: each is kept until the client has read
// what it was sent, and beyond a bound it is replaced by the sentence that says so. Owned by the
// NodeHealthService, on its thread.

class SlowClients {
 public:
  using Client = std::shared_ptr<Session>;

  // `on_room`: is_behind() is over.
  explicit SlowClients(std::function<void(const Client&)> on_room) : on_room_(std::move(on_room)) {}

  void answer(const Client& client, NodeLooked looked, std::string payload);
  // Ends the connection behind the last answer.
  void finish(const Client& client);
  // So much waits for it that nothing more should be asked for.
  bool is_behind(const Client& client) const;
  void gone(const Client& client) { waiting_.erase(client); }

 private:
  struct Answer {
    NodeLooked looked;
    std::string payload;
  };
  struct Waiting {
    std::deque<Answer> answers;
    std::size_t bytes = 0;
    bool is_finished = false;
  };

  void send_on(const std::weak_ptr<Session>& client);

  std::function<void(const Client&)> on_room_;
  std::map<Client, Waiting> waiting_;
};

}  // namespace muster
