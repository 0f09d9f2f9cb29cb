// A relay at work: starts what its controller names, as the controller itself would, and carries
// the bytes. It keeps nothing, listens nowhere, logs in nowhere and serves who started it: the
// person behind its standard input. Each ticket is by itself; one that hangs holds up no other. One
// thread.
//
//   ticket: attaching -> carrying -> gone
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "launcher/transport/link/agent_attach.h"
#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/link/start_gates.h"
#include "launcher/wire/frame.h"
#include "launcher/wire/relay_message.h"

namespace muster {

using SendToController = std::function<void(const FromRelay&, std::string_view payload)>;

// One ticket at the relay, once its node is reached: carries bytes between a RemoteProcess and the
// controller, in each direction no more than the other side has said to have room for. What the
// node says beyond that stays with the node; what the controller says has room here.
class RelayCarriage {
 public:
  // `on_end` is called from inside a callback of the process: once, and nothing is sent after it.
  RelayCarriage(std::int64_t ticket, std::unique_ptr<RemoteProcess> process,
                const std::string& first_bytes, SendToController send,
                std::function<void(const std::string& why)> on_end);

  void write(std::string bytes);       // from the controller
  void more_room(std::int64_t bytes);  // at the controller

 private:
  void take(std::string_view bytes);
  void send_held();
  void drained();
  void ended(const RemoteExit& exit);

  std::int64_t ticket_;
  SendToController send_;
  std::function<void(const std::string&)> on_end_;
  std::int64_t room_ = relay_window_bytes;
  std::string held_;            // said by the node, no room for it at the controller
  std::int64_t undrained_ = 0;  // from the controller, its room not given back yet
  Tail errors_{4096};
  std::unique_ptr<RemoteProcess> process_;
};

class RelayServer {
 public:
  // `binary` is this program's file, copied to nodes that have none of its build.
  RelayServer(boost::asio::io_context& io, std::string binary, SendToController send);
  ~RelayServer();

  void take(const ToRelay& message, std::string payload);

 private:
  using Attaching = std::shared_ptr<AgentAttach>;
  using Carrying = std::unique_ptr<RelayCarriage>;
  using Ticket = std::variant<Attaching, Carrying>;

  void on(const RelayConnect& asked, std::string&&);
  void on(const RelayBytes& bytes, std::string&& payload);
  void on(const RelayRoom& room, std::string&&);
  void on(const RelayHangUp& over, std::string&&);
  void on(const RelayPing& ping, std::string&&);

  RelayCarriage* carriage(std::int64_t ticket);  // null: none yet, or no more
  void attached(std::int64_t ticket, const NodeAddress& node, AttachResult result);
  void close(std::int64_t ticket, LinkFailure failure);
  void forget(std::int64_t ticket);

  boost::asio::io_context& io_;
  std::string binary_;
  SendToController send_;
  std::shared_ptr<PushGate> pushes_;
  std::map<std::int64_t, Ticket> tickets_;
};

// Frames over standard input and output of a relay: whole frames in, bytes out in order. Both
// descriptors are put into non-blocking mode and are the pipe's from then on.
class FramePipe {
 public:
  struct Handlers {
    std::function<void(Frame)> on_frame;
    std::function<void(const std::string& why)> on_end;  // once
  };

  FramePipe(boost::asio::io_context& io, int in, int out);
  void start(Handlers handlers);
  void write(std::string bytes);

 private:
  void read();
  void take_frames();
  void send();
  void end(const std::string& why);

  boost::asio::posix::stream_descriptor in_;
  boost::asio::posix::stream_descriptor out_;
  Handlers handlers_;
  FrameReader reader_;
  std::array<char, 256 * 1024> input_;
  std::string queue_;
  std::string sending_;
  bool is_over_ = false;
};

// `muster agent relay`: goes on from this node to further ones. Started by the controller over its
// transport, or by another relay; ends with its standard input. The exit code of the process.

// Returns the exit code of the process.
int agent_relay();

}  // namespace muster
