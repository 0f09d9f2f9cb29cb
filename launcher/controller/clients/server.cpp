#include "launcher/controller/clients/server.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include <boost/asio/io_context.hpp>

#include "launcher/transport/link/remote_process.h"
#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

namespace asio = boost::asio;

// When no descriptor is left, accepting at once again would turn in a circle.
constexpr std::chrono::milliseconds accept_pause{100};

// An ssh that outlives the controller must not hold a client's line, nor the name it listens at.
void close_on_exec(int socket) {
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
}

}  // namespace

Session::Session(asio::local::stream_protocol::socket socket, Request on_request, Closed on_closed)
    : stream_(std::make_shared<ByteStream>(std::move(socket))),
      on_request_(std::move(on_request)),
      on_closed_(std::move(on_closed)) {}

Session::~Session() {
  if (stream_) stream_->close();
}

void Session::start() {
  const auto weak = weak_from_this();
  const auto ended = [](Session& self, const std::string&) { self.close(); };
  stream_->start({while_alive(weak, &Session::received), while_alive(weak, &Session::drained),
                  while_alive(weak, ended)});
}

void Session::received(std::span<const std::byte> bytes) {
  if (!finishing_) reader_.feed(bytes);
  while (!finishing_ && stream_) {
    auto frame = reader_.next();
    if (!frame) return close();
    if (!*frame) return;
    auto request = decode<ToController>(std::move(**frame));
    if (!request) return refuse(request.error().message, ExitCode::internal);
    on_request_(shared_from_this(), std::move(request->message), std::move(request->payload));
  }
}

void Session::send(const FromController& message, std::string_view payload,
                   std::size_t queue_limit) {
  if (!stream_) return;
  stream_->write(encode(message, payload));
  if (stream_->queued_bytes() > queue_limit) close();
}

void Session::drained() {
  if (on_read_) std::exchange(on_read_, {})();
  if (finishing_) finish();
}

void Session::finish() {
  finishing_ = true;
  if (unread_bytes() == 0) close();
}

void Session::close() {
  const auto stream = std::exchange(stream_, nullptr);
  if (!stream) return;
  stream->close();
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
  acceptor_.async_accept([this](const boost::system::error_code& error,
                                asio::local::stream_protocol::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) close_on_exec(socket.native_handle());
    if (!error && is_peer_of(socket.native_handle(), ::geteuid())) {
      const auto closed = [this](const std::shared_ptr<Session>& session) {
        sessions_.erase(session);
        on_closed_(session);
      };
      (*sessions_.insert(std::make_shared<Session>(std::move(socket), on_request_, closed)).first)
          ->start();
    }
    if (!error) return accept();
    pause_.expires_after(accept_pause);
    pause_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled) accept();
    });
  });
}

}  // namespace muster
