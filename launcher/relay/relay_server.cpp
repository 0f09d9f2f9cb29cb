#include "launcher/relay/relay_server.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>

#include "launcher/os/child.h"
#include "launcher/os/timers.h"
#include "launcher/transport/link/child_process.h"
#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

AgentLaunch launch_of(const RelayConnect& asked, const std::string& binary) {
  AgentLaunch launch;
  launch.binary = binary;
  launch.build_id = asked.build_id;
  launch.controller_id = asked.controller_id;
  launch.home = asked.home;
  launch.service = asked.is_relay ? AgentService::relay : AgentService::attach;
  return launch;
}

// The controller says something every second. A relay whose controller's host is gone hears it from
// nobody.
constexpr std::chrono::seconds silence_limit{120};

class Relay {
 public:
  explicit Relay(boost::asio::io_context& io)
      : io_(io),
        pipe_(io, STDIN_FILENO, STDOUT_FILENO),
        server_(io, self_exe(), [this](const FromRelay& message, std::string_view payload) {
          pipe_.write(encode(message, payload));
        }) {}

  int run() {
    pipe_.start({[this](Frame frame) { take(std::move(frame)); },
                 [this](const std::string& why) { end(why); }});
    watch_silence();
    io_.run();
    return 0;
  }

 private:
  void take(Frame frame) {
    watch_silence();
    auto message = decode<ToRelay>(std::move(frame));
    if (!message) return end(message.error().message);
    server_.take(message->message, std::move(message->payload));
  }

  void watch_silence() {
    silence_ = call_after(io_, silence_limit, [this] { end("its controller does not respond"); });
  }

  void end(const std::string& why) {
    std::fprintf(stderr, "muster agent relay: %s\n", why.c_str());
    io_.stop();
  }

  boost::asio::io_context& io_;
  FramePipe pipe_;
  std::unique_ptr<Alarm> silence_;
  RelayServer server_;
};

}  // namespace

RelayCarriage::RelayCarriage(std::int64_t ticket, std::unique_ptr<RemoteProcess> process,
                             const std::string& first_bytes, SendToController send,
                             std::function<void(const std::string&)> on_end)
    : ticket_(ticket),
      send_(std::move(send)),
      on_end_(std::move(on_end)),
      process_(std::move(process)) {
  process_->handle({[this](std::span<const std::byte> bytes) { take(text_of(bytes)); },
                    [this](std::string_view text) { errors_.add(text); }, [this] { drained(); },
                    [this](const RemoteExit& exit) { ended(exit); }});
  take(first_bytes);
}

void RelayCarriage::write(std::string bytes) {
  undrained_ += static_cast<std::int64_t>(bytes.size());
  process_->write(std::move(bytes));
}

void RelayCarriage::more_room(std::int64_t bytes) {
  room_ += std::max<std::int64_t>(0, bytes);
  send_held();
  if (held_.empty()) process_->pause(false);
}

void RelayCarriage::take(std::string_view bytes) {
  held_ += bytes;
  send_held();
  if (!held_.empty()) process_->pause(true);
}

void RelayCarriage::send_held() {
  const auto count = static_cast<std::size_t>(
      std::min<std::int64_t>(room_, static_cast<std::int64_t>(held_.size())));
  if (count == 0) return;
  room_ -= static_cast<std::int64_t>(count);
  send_(RelayBytes{ticket_}, std::string_view(held_).substr(0, count));
  held_.erase(0, count);
}

void RelayCarriage::drained() {
  const std::int64_t bytes = std::exchange(undrained_, 0);
  if (bytes > 0) send_(RelayRoom{ticket_, bytes}, {});
}

// A process that is paused has not ended its output: what is held is all that may be left.
void RelayCarriage::ended(const RemoteExit& exit) {
  if (!held_.empty()) send_(RelayBytes{ticket_}, held_);
  held_.clear();
  if (on_end_) std::exchange(on_end_, nullptr)(attach_end_text(exit, errors_.text()));
}

RelayServer::RelayServer(boost::asio::io_context& io, std::string binary, SendToController send)
    : io_(io),
      binary_(std::move(binary)),
      send_(std::move(send)),
      pushes_(std::make_shared<PushGate>(io)) {}

RelayServer::~RelayServer() {
  for (auto& [ticket, state] : tickets_) {
    if (auto* attaching = std::get_if<Attaching>(&state)) (*attaching)->cancel();
  }
}

void RelayServer::take(const ToRelay& message, std::string payload) {
  std::visit([&](const auto& each) { on(each, std::move(payload)); }, message);
}

RelayCarriage* RelayServer::carriage(std::int64_t ticket) {
  const auto found = tickets_.find(ticket);
  const auto* carrying = found == tickets_.end() ? nullptr : std::get_if<Carrying>(&found->second);
  return carrying == nullptr ? nullptr : carrying->get();
}

void RelayServer::on(const RelayConnect& asked, std::string&&) {
  if (tickets_.contains(asked.ticket)) return;
  if (asked.node.transport != TransportKind::local) {
    return close(asked.ticket,
                 {LinkFailureKind::shell, describe(asked.node) + ": a relay logs in nowhere"});
  }
  tickets_.emplace(
      asked.ticket,
      attach_agent(io_, make_local_shell(io_), pushes_, asked.node, launch_of(asked, binary_),
                   nullptr, [this, ticket = asked.ticket, node = asked.node](AttachResult result) {
                     attached(ticket, node, std::move(result));
                   }));
}

void RelayServer::attached(std::int64_t ticket, const NodeAddress& node, AttachResult result) {
  if (auto* failure = std::get_if<LinkFailure>(&result)) return close(ticket, std::move(*failure));
  if (const auto* none = std::get_if<NoShell>(&result)) {
    return close(ticket, no_shell_failure(node, *none));
  }
  auto& agent = std::get<Attached>(result);
  send_(RelayConnected{ticket, std::move(agent.profile)}, {});
  auto carriage = std::make_unique<RelayCarriage>(
      ticket, std::move(agent.process), agent.first_bytes, send_,
      [this, ticket, node](const std::string& why) {
        close(ticket, {LinkFailureKind::lost, describe(node) + ": " + why});
      });
  tickets_.insert_or_assign(ticket, std::move(carriage));
}

void RelayServer::on(const RelayBytes& bytes, std::string&& payload) {
  if (RelayCarriage* one = carriage(bytes.ticket)) one->write(std::move(payload));
}

void RelayServer::on(const RelayRoom& room, std::string&&) {
  if (RelayCarriage* one = carriage(room.ticket)) one->more_room(room.bytes);
}

void RelayServer::on(const RelayHangUp& over, std::string&&) {
  const auto found = tickets_.find(over.ticket);
  if (found == tickets_.end()) return;
  if (auto* attaching = std::get_if<Attaching>(&found->second)) (*attaching)->cancel();
  forget(over.ticket);
}

void RelayServer::on(const RelayPing& ping, std::string&&) {
  send_(ping, {});
}

void RelayServer::close(std::int64_t ticket, LinkFailure failure) {
  send_(RelayClosed{ticket, std::move(failure)}, {});
  forget(ticket);
}

// Later: this may be called from inside what is forgotten.
void RelayServer::forget(std::int64_t ticket) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return;
  boost::asio::post(io_, [gone = std::make_shared<Ticket>(std::move(found->second))] {});
  tickets_.erase(found);
}

FramePipe::FramePipe(boost::asio::io_context& io, int in, int out) : in_(io, in), out_(io, out) {
  in_.non_blocking(true);
  out_.non_blocking(true);
}

void FramePipe::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  read();
}

void FramePipe::read() {
  in_.async_read_some(boost::asio::buffer(input_), [this](const boost::system::error_code& error,
                                                          std::size_t size) {
    if (error) {
      return end(error == boost::asio::error::eof ? "its controller disconnected"
                                                  : error.message());
    }
    reader_.feed(std::as_bytes(std::span(input_.data(), size)));
    take_frames();
    if (!is_over_) read();
  });
}

void FramePipe::take_frames() {
  while (!is_over_) {
    auto frame = reader_.next();
    if (!frame) return end(frame.error().message);
    if (!*frame) return;
    handlers_.on_frame(std::move(**frame));
  }
}

void FramePipe::write(std::string bytes) {
  queue_ += bytes;
  if (sending_.empty()) send();
}

void FramePipe::send() {
  if (queue_.empty() || is_over_) return;
  sending_.swap(queue_);
  boost::asio::async_write(out_, boost::asio::buffer(sending_),
                           [this](const boost::system::error_code& error, std::size_t) {
                             if (error) return end("its controller does not listen");
                             sending_.clear();
                             send();
                           });
}

void FramePipe::end(const std::string& why) {
  if (std::exchange(is_over_, true)) return;
  handlers_.on_end(why);
}

int agent_relay() {
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_NAME, "muster-relay");
  constexpr char marker[] = "MUSTER-ATTACHED\n";
  if (::write(STDOUT_FILENO, marker, sizeof marker - 1) != sizeof marker - 1) return 1;
  try {
    boost::asio::io_context io(1);
    return Relay(io).run();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "muster agent relay: %s\n", failure.what());
    return 1;
  }
}

}  // namespace muster
