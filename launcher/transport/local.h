// Reaches agents of this machine through their Unix sockets, and starts the ones that do not run.
//
//   gate --> connect ----------------------------> done
//               | nobody listens           ^
//               v                          |
//              `agent serve …` -----------' ends with 0
//
// `agent serve` detaches itself and ends once it listens, or finds that another process does; it
// says on standard error why it cannot. A relay is a child of this process (`agent relay`), and
// ends with its link.
#pragma once

#include <memory>
#include <string>

#include "launcher/transport/link/agent_attach.h"
#include "launcher/transport/link/start_gates.h"
#include "launcher/transport/link/transport.h"

namespace muster {

class LocalConnect;

class LocalTransport final : public Transport {
 public:
  // `user_home` stands for ~ in AgentLaunch::home; an agent has `start_timeout` to listen.
  LocalTransport(boost::asio::io_context& io, std::string user_home,
                 Milliseconds start_timeout = Milliseconds(10000));
  ~LocalTransport() override;  // drops what is under way without a call; links live on

  void connect(const NodeAddress& node, const AgentLaunch& launch, ConnectDone done) override;

 private:
  boost::asio::io_context& io_;
  std::string user_home_;
  Milliseconds start_timeout_;
  std::shared_ptr<HandshakeGate> gate_;
  std::shared_ptr<PushGate> pushes_;
  UnderWay<LocalConnect> active_;
  UnderWay<AgentAttach> starting_relays_;
};

}  // namespace muster
