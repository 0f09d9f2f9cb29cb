#include "launcher/relay/relay_server.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "launcher/transport/attach_failure.h"

namespace muster {
namespace {

RelayConnected said_of(std::int64_t ticket, const ConnectProfile& profile,
                       const std::string& methods) {
  RelayConnected connected;
  connected.ticket = ticket;
  connected.methods = methods;
  connected.profile = profile;
  return connected;
}

AgentLaunch launch_of(const RelayConnect& asked, const std::string& binary) {
  AgentLaunch launch;
  launch.binary = binary;
  launch.build_id = asked.build_id;
  launch.controller_id = asked.controller_id;
  launch.home = asked.home;
  launch.connect = asked.connect;
  return launch;
}

}  // namespace

RelayServer::RelayServer(boost::asio::io_context& io, const SshSettings& settings,
                         std::string binary, SendToController send)
    : io_(io),
      binary_(std::move(binary)),
      send_(std::move(send)),
      context_(std::make_shared<SshContext>(io, settings, std::make_shared<PushGate>(io))) {}

RelayServer::~RelayServer() {
  for (auto& [ticket, state] : tickets_) {
    if (auto* connecting = std::get_if<Connecting>(&state)) connecting->connect->cancel();
    if (auto* deepening = std::get_if<Deepening>(&state)) deepening->attach->cancel();
  }
}

void RelayServer::take(const ToRelay& message, std::string payload) {
  std::visit([&](const auto& each) { on(each, std::move(payload)); }, message);
}

template <class State>
State* RelayServer::find(std::int64_t ticket) {
  const auto found = tickets_.find(ticket);
  return found == tickets_.end() ? nullptr : std::get_if<State>(&found->second);
}

void RelayServer::on(const RelayConnect& asked, std::string&&) {
  if (tickets_.contains(asked.ticket)) return;
  const auto desk = std::make_shared<RelayDesk>(io_, asked, send_);
  const SshTarget target{asked.node, {}, desk};
  const AgentLaunch launch = launch_of(asked, binary_);
  auto connect = begin_ssh_connect(
      context_, target, launch,
      [this, ticket = asked.ticket, target, launch](SshConnectResult result) {
        connected(ticket, target, launch, std::move(result));
      });
  tickets_.emplace(asked.ticket, Connecting{desk, std::move(connect)});
}

void RelayServer::connected(std::int64_t ticket, const SshTarget& target,
                            const AgentLaunch& launch, SshConnectResult result) {
  if (auto* reached = std::get_if<SshConnected>(&result)) {
    return carry(ticket, target.node, launch, std::move(*reached));
  }
  if (auto* failure = std::get_if<LinkFailure>(&result)) return close(ticket, std::move(*failure));
  close(ticket, std::get<LoginNeedsOpenssh>(std::move(result)).otherwise);
}

void RelayServer::on(const RelayDeepen& asked, std::string&&) {
  const Carrying* over = find<Carrying>(asked.over);
  if (over == nullptr || !over->shell) {
    return close(asked.ticket, {LinkFailureKind::lost, "the node's own connection is gone"});
  }
  AgentLaunch launch = over->launch;
  launch.service = AgentService::relay;
  auto attach = attach_agent(
      io_, over->shell, context_->pushes, over->node, launch, nullptr,
      [this, ticket = asked.ticket, node = over->node](AttachResult result) {
        deepened(ticket, node, std::move(result));
      });
  tickets_.emplace(asked.ticket, Deepening{std::move(attach)});
}

void RelayServer::deepened(std::int64_t ticket, const NodeAddress& node, AttachResult result) {
  if (auto* failure = std::get_if<LinkFailure>(&result)) return close(ticket, std::move(*failure));
  if (const auto* none = std::get_if<NoShell>(&result)) {
    return close(ticket, no_shell_failure(node, *none));
  }
  auto& relay = std::get<Attached>(result);
  carry(ticket, node, {},
        {std::move(relay.process), std::move(relay.first_bytes), std::move(relay.profile), "", {}});
}

void RelayServer::carry(std::int64_t ticket, const NodeAddress& node, const AgentLaunch& launch,
                        SshConnected connected) {
  send_(said_of(ticket, connected.profile, connected.methods), {});
  auto carriage = std::make_unique<RelayCarriage>(
      ticket, std::move(connected.process), connected.first_bytes, send_,
      [this, ticket, node](const std::string& why) {
        close(ticket, {LinkFailureKind::lost, describe(node) + ": " + why});
      });
  tickets_.insert_or_assign(
      ticket, Carrying{std::move(carriage), std::move(connected.shell), node, launch});
}

void RelayServer::on(const RelayBytes& bytes, std::string&& payload) {
  if (Carrying* carrying = find<Carrying>(bytes.ticket)) {
    carrying->carriage->write(std::move(payload));
  }
}

void RelayServer::on(const RelayRoom& room, std::string&&) {
  if (Carrying* carrying = find<Carrying>(room.ticket)) carrying->carriage->more_room(room.bytes);
}

void RelayServer::on(const RelayHangUp& over, std::string&&) {
  if (Connecting* connecting = find<Connecting>(over.ticket)) connecting->connect->cancel();
  if (Deepening* deepening = find<Deepening>(over.ticket)) deepening->attach->cancel();
  forget(over.ticket);
}

void RelayServer::on(const HostKeyJudged& judged, std::string&&) {
  if (Connecting* connecting = find<Connecting>(judged.ticket)) {
    connecting->desk->judged(judged.is_trusted);
  }
}

void RelayServer::on(const Signed& signature, std::string&& payload) {
  if (Connecting* connecting = find<Connecting>(signature.ticket)) {
    connecting->desk->signature(std::move(payload));
  }
}

void RelayServer::on(const RelayPing& ping, std::string&&) {
  send_(ping, {});
}

void RelayServer::close(std::int64_t ticket, LinkFailure failure) {
  send_(RelayClosed{ticket, std::move(failure)}, {});
  forget(ticket);
}

// Later: this may be called from inside what is forgotten.
void RelayServer::forget(std::int64_t ticket) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return;
  boost::asio::post(io_, [gone = std::make_shared<Ticket>(std::move(found->second))] {});
  tickets_.erase(found);
}

}  // namespace muster
