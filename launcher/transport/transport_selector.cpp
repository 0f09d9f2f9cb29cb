#include "launcher/transport/transport_selector.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <utility>

#include "launcher/os/child.h"
#include "launcher/transport/link/start_gates.h"
#include "launcher/transport/local.h"
#include "launcher/transport/openssh_transport.h"
#include "launcher/transport/ssh/transport.h"
#include "launcher/transport/ssh_config.h"

namespace muster {
namespace {

class TransportSelector final : public Transport {
 public:
  TransportSelector(boost::asio::io_context& io, const TransportSettings& settings)
      : has_kerberos_ticket_(settings.has_kerberos_ticket),
        pushes_(std::make_shared<PushGate>(io)),
        local_(io, settings.user_home),
        openssh_(io, settings.ssh, pushes_),
        ssh_(io, settings.ssh, pushes_,
             [this](const auto& target, const auto& launch, auto done) {
               openssh_.connect(target, launch, std::move(done));
             }),
        default_host_keys_(settings.ssh.host_keys),
        ask_config_(ask_ssh_config(io, settings.ssh_config_files, settings.has_kerberos_ticket)) {}

  void connect(const NodeAddress& node, const AgentLaunch& launch, ConnectDone done) override {
    if (node.transport == TransportKind::local) {
      return local_.connect(node, launch, std::move(done));
    }
    ask_config_(node, [this, alive = std::weak_ptr(alive_), node, launch,
                       done = std::move(done)](const SshConfigAnswer& answer) {
      if (alive.expired()) return;
      if (const auto* failure = std::get_if<LinkFailure>(&answer)) return done(*failure);
      connect_as(std::get_if<SshHostConfig>(&answer), node, launch, done);
    });
  }

 private:
  // `config`: null where nothing is configured. The stricter of it and the cluster file counts.
  void connect_as(const SshHostConfig* config, const NodeAddress& node, const AgentLaunch& launch,
                  ConnectDone done) {
    SshTarget target{node, config == nullptr ? default_host_keys_ : config->host_keys, ""};
    HostKeyPolicy::Strict& strict = target.host_keys.strict;
    if (launch.connect.refuses_unknown_hosts && strict != HostKeyPolicy::Strict::yes) {
      strict = HostKeyPolicy::Strict::known;
    }
    const bool for_openssh =
        node.transport == TransportKind::openssh ||
        (config != nullptr && !needs_openssh(*config, has_kerberos_ticket_).empty());
    if (for_openssh) {
      if (config != nullptr) target.host_name = config->host_name;
      return openssh_.connect(target, launch, std::move(done));
    }
    if (config != nullptr) target.node = with_ssh_config(node, *config);
    ssh_.connect(target, launch, std::move(done));
  }

  bool has_kerberos_ticket_;
  std::shared_ptr<PushGate> pushes_;
  LocalTransport local_;
  OpensshTransport openssh_;
  SshTransport ssh_;
  HostKeyPolicy default_host_keys_;
  AskSshConfig ask_config_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

TransportSettings transport_settings_from_environment(const std::string& muster_home) {
  TransportSettings settings;
  SshSettings& ssh = settings.ssh;
  settings.user_home = environment("HOME");
  if (const passwd* account = ::getpwuid(::getuid())) {
    ssh.user = account->pw_name;
    if (settings.user_home.empty()) settings.user_home = account->pw_dir;
  }
  ssh.key_folder = settings.user_home + "/.ssh";
  ssh.host_keys.files = {ssh.key_folder + "/known_hosts", ssh.key_folder + "/known_hosts2",
                         "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"};
  ssh.own_known_hosts = muster_home + "/known_hosts";
  ssh.agent_socket = environment("SSH_AUTH_SOCK");
  ssh.jitter_seed = std::random_device{}();
  settings.ssh_config_files = {ssh.key_folder + "/config", "/etc/ssh/ssh_config"};
  const std::string ticket = "/tmp/krb5cc_" + std::to_string(::getuid());
  settings.has_kerberos_ticket =
      std::getenv("KRB5CCNAME") != nullptr || ::access(ticket.c_str(), R_OK) == 0;
  return settings;
}

std::unique_ptr<Transport> make_transport(boost::asio::io_context& io, TransportSettings settings) {
  return std::make_unique<TransportSelector>(io, settings);
}

}  // namespace muster
