#include "launcher/transport/transport_selector.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "launcher/transport/link/push_gate.h"
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
        config_(io, settings.ssh_config_files, settings.has_kerberos_ticket) {}

  void connect(const NodeAddress& node, const AgentLaunch& launch,
               std::function<void(ConnectResult)> done) override {
    switch (node.transport) {
      case TransportKind::local:
        return local_.connect(node, launch, std::move(done));
      case TransportKind::openssh:
      case TransportKind::ssh:
        return choose(node, [this, launch, done = std::move(done)](const Choice& choice) {
          if (const auto* failure = std::get_if<LinkFailure>(&choice)) return done(*failure);
          const auto* openssh = std::get_if<ByOpenssh>(&choice);
          if (openssh != nullptr) {
            return openssh_.connect(guarded(openssh->target, launch.connect), launch, done);
          }
          ssh_.connect(guarded(std::get<SshTarget>(choice), launch.connect), launch, done);
        });
    }
  }

 private:
  struct ByOpenssh {
    SshTarget target;
  };
  using Choice = std::variant<SshTarget, ByOpenssh, LinkFailure>;

  // The stricter of the cluster file and the ssh configuration.
  static SshTarget guarded(SshTarget target, const ConnectSettings& limits) {
    HostKeyPolicy::Strict& strict = target.host_keys.strict;
    if (limits.refuses_unknown_hosts && strict != HostKeyPolicy::Strict::yes) {
      strict = HostKeyPolicy::Strict::known;
    }
    return target;
  }

  void choose(const NodeAddress& node, std::function<void(const Choice&)> done) {
    config_.ask(node, [this, alive = std::weak_ptr(alive_), node,
                       done = std::move(done)](const SshConfigAnswer& answer) {
      if (alive.expired()) return;
      if (const auto* failure = std::get_if<LinkFailure>(&answer)) return done(*failure);
      const auto* config = std::get_if<SshHostConfig>(&answer);
      SshTarget target{node, config == nullptr ? default_host_keys_ : config->host_keys, ""};
      const bool for_openssh =
          node.transport == TransportKind::openssh ||
          (config != nullptr && !needs_openssh(*config, has_kerberos_ticket_).empty());
      if (for_openssh) {
        if (config != nullptr) target.host_name = config->host_name;
        return done(ByOpenssh{std::move(target)});
      }
      if (config != nullptr) target.node = with_ssh_config(node, *config);
      done(std::move(target));
    });
  }

  bool has_kerberos_ticket_;
  std::shared_ptr<PushGate> pushes_;
  LocalTransport local_;
  OpensshTransport openssh_;
  SshTransport ssh_;
  HostKeyPolicy default_host_keys_;
  SshConfigQuery config_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

TransportSettings transport_settings_from_environment(const std::string& muster_home) {
  TransportSettings settings;
  settings.ssh = ssh_settings_from_environment(muster_home);
  const std::string& keys = settings.ssh.key_folder;
  settings.user_home = keys.substr(0, keys.rfind('/'));
  settings.ssh_config_files = {keys + "/config", "/etc/ssh/ssh_config"};
  const std::string ticket = "/tmp/krb5cc_" + std::to_string(::getuid());
  settings.has_kerberos_ticket =
      std::getenv("KRB5CCNAME") != nullptr || ::access(ticket.c_str(), R_OK) == 0;
  return settings;
}

std::unique_ptr<Transport> make_transport(boost::asio::io_context& io, TransportSettings settings) {
  return std::make_unique<TransportSelector>(io, settings);
}

}  // namespace muster
