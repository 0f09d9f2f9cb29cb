#include "launcher/relay/fan_out.h"

#include <utility>

#include "launcher/relay/fan_out_tree.h"

namespace muster {

FanOut::FanOut(Timers& timers, std::unique_ptr<Transport> direct, Note note)
    : timers_(timers), direct_(std::move(direct)), note_(std::move(note)) {}

FanOut::~FanOut() = default;

void FanOut::connect(const NodeAddress& node, const AgentLaunch& launch,
                     std::function<void(ConnectResult)> done) {
  if (node.transport != TransportKind::local) {
    return direct_->connect(node, launch, std::move(done));
  }
  auto& tree = trees_[launch.target];
  if (!tree) tree = std::make_shared<FanOutTree>(timers_, *direct_, launch.target, note_);
  tree->connect(node, launch, std::move(done));
}

}  // namespace muster
