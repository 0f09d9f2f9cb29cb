#include "launcher/transport/ssh_transport.h"

#include <list>
#include <utility>

#include "launcher/transport/agent_attach.h"
#include "launcher/transport/process_link.h"
#include "launcher/transport/ssh_connect.h"

namespace muster {

class SshTransport::Shared : public std::enable_shared_from_this<Shared> {
 public:
  Shared(boost::asio::io_context& io, SshSettings settings, std::shared_ptr<PushGate> pushes,
         Fallback fallback)
      : context_(std::make_shared<SshContext>(io, std::move(settings), std::move(pushes))),
        fallback_(std::move(fallback)) {}

  void connect(const SshTarget& target, const AgentLaunch& launch,
               std::function<void(ConnectResult)> done) {
    const auto place = active_.emplace(active_.end());
    *place = begin_ssh_connect(
        context_, target, launch,
        [weak = weak_from_this(), place, target, launch, done = std::move(done)](auto result) {
          const auto self = weak.lock();
          if (!self) return;
          const auto keep = std::move(*place);  // it is calling
          self->active_.erase(place);
          self->deliver(std::move(result), target, launch, done);
        });
  }

  const SshSettings& settings() const { return context_->settings; }

  void cancel() {
    for (const auto& each : active_) each->cancel();
    active_.clear();
  }

 private:
  void deliver(SshConnectResult result, const SshTarget& target, const AgentLaunch& launch,
               const std::function<void(ConnectResult)>& done) {
    if (auto* connected = std::get_if<SshConnected>(&result)) {
      return done(link_of(std::move(*connected), target.node, launch));
    }
    if (auto* failure = std::get_if<LinkFailure>(&result)) return done(std::move(*failure));
    if (fallback_) return fallback_(target, launch, done);
    done(std::get<LoginNeedsOpenssh>(std::move(result)).otherwise);
  }

  Connected link_of(SshConnected connected, const NodeAddress& node, const AgentLaunch& launch) {
    StartRelay start_relay = [context = context_, shell = connected.shell, node,
                              launch](std::function<void(RelayResult)> done) {
      start_relay_on(context, shell, node, launch, std::move(done));
    };
    return {make_process_link(context_->io, std::move(connected.process),
                              std::move(connected.first_bytes), node),
            std::move(connected.profile),
            std::move(connected.methods),
            std::nullopt,
            std::move(start_relay)};
  }

  static void start_relay_on(const std::shared_ptr<SshContext>& context,
                             const std::shared_ptr<RemoteShell>& shell, const NodeAddress& node,
                             AgentLaunch launch, std::function<void(RelayResult)> done) {
    launch.service = AgentService::relay;
    const auto attach = std::make_shared<std::shared_ptr<AgentAttach>>();
    *attach = attach_agent(
        context->io, shell, context->pushes, node, launch, nullptr,
        [attach, context, node, done = std::move(done)](AttachResult result) {
          const auto keep = std::exchange(*attach, nullptr);  // it is calling
          done(relay_result(context->io, node, std::move(result)));
        });
  }

  static RelayResult relay_result(boost::asio::io_context& io, const NodeAddress& node,
                                  AttachResult result) {
    if (auto* failure = std::get_if<LinkFailure>(&result)) return std::move(*failure);
    if (const auto* none = std::get_if<NoShell>(&result)) return no_shell_failure(node, *none);
    auto& relay = std::get<Attached>(result);
    return make_process_link(io, std::move(relay.process), std::move(relay.first_bytes), node);
  }

  std::shared_ptr<SshContext> context_;
  Fallback fallback_;
  std::list<std::shared_ptr<SshConnect>> active_;
};

SshTransport::SshTransport(boost::asio::io_context& io, SshSettings settings,
                           std::shared_ptr<PushGate> pushes, Fallback fallback)
    : shared_(std::make_shared<Shared>(io, std::move(settings), std::move(pushes),
                                       std::move(fallback))) {}

SshTransport::~SshTransport() {
  shared_->cancel();
}

void SshTransport::connect(const NodeAddress& node, const AgentLaunch& launch,
                           std::function<void(ConnectResult)> done) {
  connect(SshTarget{node, shared_->settings().host_keys}, launch, std::move(done));
}

void SshTransport::connect(const SshTarget& target, const AgentLaunch& launch,
                           std::function<void(ConnectResult)> done) {
  shared_->connect(target, launch, std::move(done));
}

}  // namespace muster
