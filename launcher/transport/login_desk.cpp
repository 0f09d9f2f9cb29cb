#include "launcher/transport/login_desk.h"

#include "launcher/transport/ssh_agent.h"
#include "launcher/transport/ssh_settings.h"

namespace muster {
namespace {

class OwnDesk final : public LoginDesk {
 public:
  OwnDesk(boost::asio::io_context& io, const std::string& own_known_hosts,
          std::string agent_socket)
      : io_(io), host_keys_(own_known_hosts), agent_socket_(std::move(agent_socket)) {}

  std::vector<std::string> known_types(const SshTarget& target) override {
    return host_keys_.known_types(target.host_keys, target.node.host, target.node.port);
  }
  void judge(const SshTarget& target, const std::string& key,
             std::function<void(HostKeyVerdict)> done) override {
    done(host_keys_.check(target.host_keys, target.node.host, target.node.port, key));
  }
  std::unique_ptr<KeyAgent> key_agent() override {
    return agent_socket_.empty() ? nullptr : std::make_unique<SshAgent>(io_, agent_socket_);
  }
  bool prefers_key_files() const override { return false; }

 private:
  boost::asio::io_context& io_;
  HostKeyStore host_keys_;
  std::string agent_socket_;
};

}  // namespace

std::shared_ptr<LoginDesk> make_own_desk(boost::asio::io_context& io,
                                         const std::string& own_known_hosts,
                                         const std::string& agent_socket) {
  return std::make_shared<OwnDesk>(io, own_known_hosts, agent_socket);
}

}  // namespace muster
