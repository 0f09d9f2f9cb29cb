// Reaches agents of this machine through their Unix sockets, and starts the ones that do not run.
//
//   gate --> connect ----------------------------> done
//               | nobody listens           ^
//               v                          |
//            `agent serve … --ready-fd 3` -' a byte on the descriptor
//
// `agent serve` writes one byte to the descriptor once it listens (or finds that another process
// does), says on standard error why it cannot, and detaches itself. A relay is a child of this
// process (`agent relay`), and ends with its link.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include <boost/asio/local/stream_protocol.hpp>

#include "launcher/os/fd.h"
#include "launcher/transport/link/transport.h"
#include "scheduler/model/result.h"

namespace boost::asio {
class io_context;
}

namespace muster {

class LocalTransport final : public Transport {
 public:
  // `user_home` stands for ~ in AgentLaunch::home; an agent has `start_timeout` to listen.
  LocalTransport(boost::asio::io_context& io, std::string user_home,
                 Milliseconds start_timeout = Milliseconds(10000));
  ~LocalTransport() override;  // drops what is under way without a call; links live on

  void connect(const NodeAddress& node, const AgentLaunch& launch,
               std::function<void(ConnectResult)> done) override;

 private:
  class Shared;
  std::shared_ptr<Shared> shared_;
};

// Connecting to the Unix socket that an agent of this machine listens on.

struct NobodyListens {};

// `<run_folder>/agent.sock`, whatever the length of the path; a socket of another user is an error.
std::variant<Fd, NobodyListens, Error> connect_agent_socket(const std::string& run_folder);

// A Link over a Unix socket that an agent of this machine listens on.

// `peer` names the agent in messages.
std::unique_ptr<Link> make_stream_link(boost::asio::local::stream_protocol::socket socket,
                                       const std::string& peer);

}  // namespace muster
