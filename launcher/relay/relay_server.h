// A relay at work: starts what its controller names, as the controller itself would, and carries
// the bytes. It keeps nothing, listens nowhere, logs in nowhere and serves who started it: the
// person behind its standard input. Each ticket is by itself; one that hangs holds up no other. One
// thread.
//
//   ticket: attaching -> carrying -> gone
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include "launcher/relay/relay_carriage.h"
#include "launcher/transport/link/agent_attach.h"
#include "launcher/transport/link/push_gate.h"
#include "launcher/wire/relay_message.h"

namespace muster {

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

}  // namespace muster
