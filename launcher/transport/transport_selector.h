// Every node by the transport that its address names; `ssh` nodes whose ssh configuration asks for
// more than libssh2 can do go to the ssh program. The Transport below what the controller is given.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "launcher/transport/ssh_settings.h"
#include "launcher/transport/transport.h"

namespace boost::asio {
class io_context;
}

namespace muster {

struct TransportSettings {
  SshSettings ssh;
  std::string user_home;                      // stands for ~ on this machine
  std::vector<std::string> ssh_config_files;  // ~/.ssh/config, /etc/ssh/ssh_config
  bool has_kerberos_ticket = false;
};

struct ForOpenssh {};  // the ssh program reaches it, libssh2 cannot
using SshRoute = std::variant<SshTarget, ForOpenssh, LinkFailure>;

// A Transport that can be asked beforehand how it would reach an ssh node.
class SshRoutes : public Transport {
 public:
  using Transport::connect;
  // From the io_context; nothing once this is gone.
  virtual void route(const NodeAddress& node, std::function<void(SshRoute)> done) = 0;
  virtual void connect(const SshTarget& target, const AgentLaunch& launch,
                       std::function<void(ConnectResult)> done) = 0;
};

TransportSettings transport_settings_from_environment(const std::string& muster_home);

std::unique_ptr<SshRoutes> make_transport(boost::asio::io_context& io, TransportSettings settings);

}  // namespace muster
