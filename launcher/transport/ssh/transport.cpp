#include "launcher/transport/ssh/transport.h"

#include <list>
#include <utility>

#include "launcher/transport/link/process_link.h"
#include "launcher/transport/ssh/connect.h"

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
      return done(link_of(std::move(*connected), target.node));
    }
    if (auto* failure = std::get_if<LinkFailure>(&result)) return done(std::move(*failure));
    if (fallback_) return fallback_(target, launch, done);
    done(std::get<LoginNeedsOpenssh>(std::move(result)).otherwise);
  }

  Connected link_of(SshConnected connected, const NodeAddress& node) {
    return {make_process_link(context_->io, std::move(connected.process),
                              std::move(connected.first_bytes), node),
            std::move(connected.profile),
            std::move(connected.methods),
            std::nullopt,
            std::move(connected.first_contact)};
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
