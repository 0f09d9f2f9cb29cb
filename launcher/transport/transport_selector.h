// Every node by the transport that its address names; `ssh` nodes whose ssh configuration asks for
// more than libssh2 can do go to the ssh program. The Transport below what the controller is given.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/transport/link/transport.h"
#include "launcher/transport/ssh/settings.h"

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

TransportSettings transport_settings_from_environment(const std::string& muster_home);

std::unique_ptr<Transport> make_transport(boost::asio::io_context& io, TransportSettings settings);

}  // namespace muster
