// Every node by the transport that its address names; `ssh` nodes whose ssh configuration asks for
// more than libssh2 can do go to the ssh program. The Transport below what the controller is given.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/transport/link/transport.h"
#include "launcher/transport/ssh/host_key_store.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/link.h"
#include "scheduler/text/clock.h"

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

// What the user's ssh configuration says about a host, asked of `ssh -G`, and whether that is more
// than libssh2 can do. The parsers are pure; the query runs on the controller's one thread.

// The lines of `ssh -G` that matter here.
struct SshHostConfig {
  std::string host_name;
  std::string user;
  int port = 22;
  std::vector<std::string> identity_files;
  bool goes_through_proxy = false;  // ProxyJump or ProxyCommand
  bool has_certificate = false;
  bool allows_kerberos = false;
  bool has_other_needs = false;  // HostKeyAlias, IdentityAgent, BindAddress, …
  HostKeyPolicy host_keys;
};

SshHostConfig parse_ssh_config(std::string_view dump);

// True when a configuration file sets nothing that could matter to muster, as an untouched
// /etc/ssh/ssh_config does, so that no `ssh -G` is needed.
bool is_plain_ssh_config(std::string_view text);

// Why only the ssh program can reach the host; empty: libssh2 can.
std::string needs_openssh(const SshHostConfig& config, bool has_kerberos_ticket);

// What the cluster file leaves open is filled in from the configuration.
NodeAddress with_ssh_config(NodeAddress node, const SshHostConfig& config);

struct PlainSshConfig {};  // nothing beyond the defaults, or no ssh program
using SshConfigAnswer = std::variant<PlainSshConfig, SshHostConfig, LinkFailure>;

// Asks `ssh -G`, once per address and minute: the files may change while the controller runs. The
// answer comes from the io_context.
using AskSshConfig =
    std::function<void(const NodeAddress&, std::function<void(const SshConfigAnswer&)> done)>;

// `always`: ask even where the files say nothing, for a default of ssh counts (Kerberos).
AskSshConfig ask_ssh_config(boost::asio::io_context& io, std::vector<std::string> config_files,
                            bool always, Milliseconds timeout = Milliseconds(20000));

}  // namespace muster
