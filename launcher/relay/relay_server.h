// A relay at work: logs in to the nodes that its controller names, as the controller itself would,
// and carries their bytes. It keeps nothing, listens nowhere and serves who started it: the person
// behind its standard input. Each ticket is by itself; one that hangs holds up no other. One
// thread.
//
//   ticket: connecting -> carrying -> gone        (RelayConnect)
//           deepening  -> carrying -> gone        (RelayDeepen)
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include "launcher/relay/relay_carriage.h"
#include "launcher/relay/relay_desk.h"
#include "launcher/transport/agent_attach.h"
#include "launcher/transport/ssh_connect.h"
#include "launcher/wire/relay_message.h"

namespace muster {

class RelayServer {
 public:
  // `binary` is this program's file, copied to nodes that have none of its build.
  RelayServer(boost::asio::io_context& io, const SshSettings& settings, std::string binary,
              SendToController send);
  ~RelayServer();

  void take(const ToRelay& message, std::string payload);

 private:
  struct Connecting {
    std::shared_ptr<RelayDesk> desk;
    std::shared_ptr<SshConnect> connect;
  };
  struct Deepening {
    std::shared_ptr<AgentAttach> attach;
  };
  struct Carrying {
    std::unique_ptr<RelayCarriage> carriage;
    std::shared_ptr<RemoteShell> shell;  // null: on top of another ticket
    NodeAddress node;
    AgentLaunch launch;
  };
  using Ticket = std::variant<Connecting, Deepening, Carrying>;

  void on(const RelayConnect& asked, std::string&&);
  void on(const RelayDeepen& asked, std::string&&);
  void on(const RelayBytes& bytes, std::string&& payload);
  void on(const RelayRoom& room, std::string&&);
  void on(const RelayHangUp& over, std::string&&);
  void on(const HostKeyJudged& judged, std::string&&);
  void on(const Signed& signature, std::string&& payload);
  void on(const RelayPing& ping, std::string&&);

  template <class State>
  State* find(std::int64_t ticket);
  void connected(std::int64_t ticket, const SshTarget& target, const AgentLaunch& launch,
                 SshConnectResult result);
  void deepened(std::int64_t ticket, const NodeAddress& node, AttachResult result);
  void carry(std::int64_t ticket, const NodeAddress& node, const AgentLaunch& launch,
             SshConnected connected);
  void close(std::int64_t ticket, LinkFailure failure);
  void forget(std::int64_t ticket);

  boost::asio::io_context& io_;
  std::string binary_;
  SendToController send_;
  std::shared_ptr<SshContext> context_;
  std::map<std::int64_t, Ticket> tickets_;
};

}  // namespace muster
