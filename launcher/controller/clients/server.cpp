#include "launcher/controller/clients/server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>

#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

namespace asio = boost::asio;

// A client that does not read its events is dropped rather than remembered without end.
constexpr std::size_t client_queue_limit_bytes = 64u << 20;

// Two of the longest payloads.
constexpr std::size_t client_queue_room_bytes = 8u << 20;

// When no descriptor is left, accepting at once again would turn in a circle.
constexpr std::chrono::milliseconds accept_pause{100};

bool is_same_user(asio::local::stream_protocol::socket& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return false;
  }
  return peer.uid == ::geteuid() || peer.uid == 0;
}

// An ssh that outlives the controller must not hold a client's line, nor the name it listens at.
void close_on_exec(int socket) {
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
}

// The answers of 500 nodes, of 130 KB each.
constexpr std::size_t bytes_until_behind = 64u << 20;
// What nodes still say that were asked before.
constexpr std::size_t bytes_most = 512u << 20;

}  // namespace

Session::Session(asio::local::stream_protocol::socket socket, Request on_request, Closed on_closed)
    : socket_(std::move(socket)),
      on_request_(std::move(on_request)),
      on_closed_(std::move(on_closed)) {}

void Session::read() {
  socket_.async_read_some(
      asio::buffer(buffer_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t count) {
        if (error) {
          self->close();
          return;
        }
        if (!self->finishing_) self->reader_.feed(std::span(self->buffer_).first(count));
        if (self->deliver_frames())
          self->read();
        else
          self->close();
      });
}

bool Session::deliver_frames() {
  while (!finishing_ && socket_.is_open()) {
    auto frame = reader_.next();
    if (!frame) return false;
    if (!*frame) return true;
    auto request = decode<ToController>(std::move(**frame));
    if (!request) {
      refuse(request.error().message, ExitCode::internal);
      return true;
    }
    on_request_(shared_from_this(), std::move(request->message), std::move(request->payload));
  }
  return true;
}

void Session::send(const FromController& message, std::string_view payload) {
  if (!socket_.is_open()) return;
  queue_.push_back(encode(message, payload));
  queued_bytes_ += queue_.back().size();
  if (queued_bytes_ > client_queue_limit_bytes) {
    close();
    return;
  }
  if (queue_.size() == 1) write();
}

void Session::write() {
  asio::async_write(
      socket_, asio::buffer(queue_.front()),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
        if (error || self->queue_.empty()) {
          self->close();
          return;
        }
        self->queued_bytes_ -= self->queue_.front().size();
        self->queue_.pop_front();
        if (!self->queue_.empty()) self->write();
        if (self->on_room_ && self->has_room()) std::exchange(self->on_room_, {})();
        if (self->queue_.empty() && self->finishing_) self->close();
      });
}

bool Session::has_room() const {
  return queued_bytes_ < client_queue_room_bytes;
}

void Session::when_room(std::function<void()> then) {
  if (has_room()) return then();
  on_room_ = std::move(then);
}

void Session::finish() {
  finishing_ = true;
  if (queue_.empty()) close();
}

void Session::close() {
  if (!socket_.is_open()) return;
  boost::system::error_code ignored;
  socket_.close(ignored);
  on_closed_(shared_from_this());
}

RequestServer::RequestServer(asio::io_context& io, Session::Request on_request,
                             Session::Closed on_closed)
    : acceptor_(io),
      pause_(io),
      on_request_(std::move(on_request)),
      on_closed_(std::move(on_closed)) {}

// sockaddr_un holds 108 bytes: the name is bound through a descriptor of its directory.
Status RequestServer::listen(const std::filesystem::path& socket_path) {
  const auto directory = socket_path.parent_path();
  const Fd held(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!held) return Error{"cannot open the state directory " + directory.string()};
  ::unlink(socket_path.c_str());
  const std::string name =
      "/proc/self/fd/" + std::to_string(held.get()) + "/" + socket_path.filename().string();
  boost::system::error_code error;
  acceptor_.open(asio::local::stream_protocol(), error);
  if (!error) close_on_exec(acceptor_.native_handle());
  const mode_t old_mask = ::umask(0177);
  if (!error) acceptor_.bind(asio::local::stream_protocol::endpoint(name), error);
  ::umask(old_mask);
  if (!error) acceptor_.listen(64, error);
  if (error) {
    return Error{"cannot listen on " + socket_path.string() + ": " + error.message()};
  }
  accept();
  return Done{};
}

void RequestServer::accept() {
  acceptor_.async_accept(
      [this](const boost::system::error_code& error, asio::local::stream_protocol::socket socket) {
        if (error == asio::error::operation_aborted) return;
        if (!error) close_on_exec(socket.native_handle());
        if (!error && is_same_user(socket)) {
          ++*sessions_;
          auto closed = [this, count = sessions_](const std::shared_ptr<Session>& session) {
            --*count;
            on_closed_(session);
          };
          std::make_shared<Session>(std::move(socket), on_request_, closed)->start();
        }
        if (!error) return accept();
        pause_.expires_after(accept_pause);
        pause_.async_wait([this](const boost::system::error_code& cancelled) {
          if (!cancelled) accept();
        });
      });
}

void SlowClients::answer(const Client& client, NodeLooked looked, std::string payload) {
  const auto known = waiting_.find(client);
  if (known == waiting_.end() && client->has_room()) return client->send(looked, payload);
  Waiting& waiting = waiting_[client];
  if (waiting.bytes + payload.size() > bytes_most) {
    payload.clear();
    looked.error = "its answer was not kept: those before it were not read";
  }
  waiting.bytes += payload.size();
  waiting.answers.push_back({std::move(looked), std::move(payload)});
  if (waiting.answers.size() > 1) return;
  client->when_room([this, weak = std::weak_ptr<Session>(client)] { send_on(weak); });
}

void SlowClients::send_on(const std::weak_ptr<Session>& weak) {
  const Client client = weak.lock();
  const auto found = waiting_.find(client);
  if (!client || found == waiting_.end()) return;
  Waiting& waiting = found->second;
  const bool was_behind = is_behind(client);
  while (!waiting.answers.empty() && client->has_room()) {
    const Answer answer = std::move(waiting.answers.front());
    waiting.answers.pop_front();
    waiting.bytes -= answer.payload.size();
    client->send(answer.looked, answer.payload);
  }
  const bool has_room_now = was_behind && !is_behind(client);
  if (!waiting.answers.empty()) {
    client->when_room([this, weak] { send_on(weak); });
  } else {
    const bool is_finished = waiting.is_finished;
    waiting_.erase(found);
    if (is_finished) return client->finish();
  }
  if (has_room_now) on_room_(client);
}

void SlowClients::finish(const Client& client) {
  const auto found = waiting_.find(client);
  if (found == waiting_.end()) return client->finish();
  found->second.is_finished = true;
}

bool SlowClients::is_behind(const Client& client) const {
  const auto found = waiting_.find(client);
  return found != waiting_.end() && found->second.bytes > bytes_until_behind;
}

}  // namespace muster
