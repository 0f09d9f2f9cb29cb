#include "launcher/relay/relay_server.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/local_shell.h"

namespace muster {
namespace {

AgentLaunch launch_of(const RelayConnect& asked, const std::string& binary) {
  AgentLaunch launch;
  launch.binary = binary;
  launch.build_id = asked.build_id;
  launch.controller_id = asked.controller_id;
  launch.home = asked.home;
  launch.service = asked.is_relay ? AgentService::relay : AgentService::attach;
  return launch;
}

}  // namespace

RelayServer::RelayServer(boost::asio::io_context& io, std::string binary, SendToController send)
    : io_(io),
      binary_(std::move(binary)),
      send_(std::move(send)),
      pushes_(std::make_shared<PushGate>(io)) {}

RelayServer::~RelayServer() {
  for (auto& [ticket, state] : tickets_) {
    if (auto* attaching = std::get_if<Attaching>(&state)) (*attaching)->cancel();
  }
}

void RelayServer::take(const ToRelay& message, std::string payload) {
  std::visit([&](const auto& each) { on(each, std::move(payload)); }, message);
}

RelayCarriage* RelayServer::carriage(std::int64_t ticket) {
  const auto found = tickets_.find(ticket);
  const auto* carrying = found == tickets_.end() ? nullptr : std::get_if<Carrying>(&found->second);
  return carrying == nullptr ? nullptr : carrying->get();
}

void RelayServer::on(const RelayConnect& asked, std::string&&) {
  if (tickets_.contains(asked.ticket)) return;
  if (asked.node.transport != TransportKind::local) {
    return close(asked.ticket, {LinkFailureKind::shell,
                                describe(asked.node) + ": a relay logs in nowhere"});
  }
  tickets_.emplace(asked.ticket,
                   attach_agent(io_, make_local_shell(io_), pushes_, asked.node,
                                launch_of(asked, binary_), nullptr,
                                [this, ticket = asked.ticket,
                                 node = asked.node](AttachResult result) {
                                  attached(ticket, node, std::move(result));
                                }));
}

void RelayServer::attached(std::int64_t ticket, const NodeAddress& node, AttachResult result) {
  if (auto* failure = std::get_if<LinkFailure>(&result)) return close(ticket, std::move(*failure));
  if (const auto* none = std::get_if<NoShell>(&result)) {
    return close(ticket, no_shell_failure(node, *none));
  }
  auto& agent = std::get<Attached>(result);
  send_(RelayConnected{ticket, std::move(agent.profile)}, {});
  auto carriage = std::make_unique<RelayCarriage>(
      ticket, std::move(agent.process), agent.first_bytes, send_,
      [this, ticket, node](const std::string& why) {
        close(ticket, {LinkFailureKind::lost, describe(node) + ": " + why});
      });
  tickets_.insert_or_assign(ticket, std::move(carriage));
}

void RelayServer::on(const RelayBytes& bytes, std::string&& payload) {
  if (RelayCarriage* one = carriage(bytes.ticket)) one->write(std::move(payload));
}

void RelayServer::on(const RelayRoom& room, std::string&&) {
  if (RelayCarriage* one = carriage(room.ticket)) one->more_room(room.bytes);
}

void RelayServer::on(const RelayHangUp& over, std::string&&) {
  const auto found = tickets_.find(over.ticket);
  if (found == tickets_.end()) return;
  if (auto* attaching = std::get_if<Attaching>(&found->second)) (*attaching)->cancel();
  forget(over.ticket);
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
