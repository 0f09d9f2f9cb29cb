#include "launcher/relay/fan_out.h"

#include <utility>

#include "launcher/relay/fan_out_tree.h"

namespace muster {

FanOut::FanOut(Timers& timers, std::unique_ptr<SshRoutes> routes,
               std::shared_ptr<LoginTrust> trust, Note note)
    : timers_(timers),
      routes_(std::move(routes)),
      trust_(std::move(trust)),
      note_(std::move(note)) {}

FanOut::~FanOut() = default;

void FanOut::connect(const NodeAddress& node, const AgentLaunch& launch,
                     std::function<void(ConnectResult)> done) {
  if (node.transport != TransportKind::ssh) {
    return routes_->connect(node, launch, std::move(done));
  }
  auto& tree = trees_[launch.target];
  if (!tree) tree = std::make_shared<FanOutTree>(timers_, *routes_, trust_, launch.target, note_);
  tree->connect(node, launch, std::move(done));
}

}  // namespace muster
