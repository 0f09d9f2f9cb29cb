// Reaches nodes through child processes of the `ssh` program: slower than SshTransport, but with
// all of ~/.ssh/config: jump hosts, certificates, Kerberos, hardware keys.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/transport/link/push_gate.h"
#include "launcher/transport/link/transport.h"
#include "launcher/transport/ssh/settings.h"

namespace boost::asio {
class io_context;
}

namespace muster {

// `ssh` and its options for a node; the remote command follows as one more word.
std::vector<std::string> openssh_argv(const SshTarget& target, const SshSettings& settings,
                                      const ConnectSettings& limits);

class OpensshTransport final : public Transport {
 public:
  OpensshTransport(boost::asio::io_context& io, SshSettings settings,
                   std::shared_ptr<PushGate> pushes);
  ~OpensshTransport() override;  // drops what is under way without a call; links live on

  void connect(const NodeAddress& node, const AgentLaunch& launch,
               std::function<void(ConnectResult)> done) override;
  void connect(const SshTarget& target, const AgentLaunch& launch,
               std::function<void(ConnectResult)> done);

 private:
  class Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace muster
