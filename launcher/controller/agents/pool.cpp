#include "launcher/controller/agents/pool.h"

#include <algorithm>

namespace muster {

namespace {

// The first retry is at once for an agent that was restarted; five seconds spares a rebooting node.
constexpr Milliseconds first_backoff{50};
constexpr Milliseconds longest_backoff{5000};
// A link that breaks sooner than this, again and again, is tried ever less often: each time costs
// records in the journal.
constexpr std::chrono::seconds steady_link{10};

}  // namespace

AgentPool::AgentPool(Timers& timers, Transport& transport, AgentLaunch launch)
    : timers_(timers), transport_(transport), launch_(std::move(launch)) {}

void AgentPool::set_listeners(std::vector<NodeListener*> listeners) {
  listeners_ = std::move(listeners);
}

AgentConnection::Events AgentPool::events_of(const NodeId& node) {
  return {[this, node](const Welcome& welcome) {
            Entry& entry = entries_.at(node);
            entry.up_since = timers_.now();
            entry.reported.reset();
            for (NodeListener* each : listeners_) each->node_up(node, welcome);
          },
          [this, node](const FromAgent& message, const std::string& payload) {
            for (NodeListener* each : listeners_) {
              if (each->take(node, message, payload)) return;
            }
          },
          [this, node](const LinkFailure& failure) { failed(node, failure); }};
}

void AgentPool::want(const NodeAddress& address, const ComputeTarget& target,
                     const std::string& home) {
  Entry& entry = entries_[address.id];
  entry.wanted = true;
  // Whoever wants it anew hears how it is, without what earlier failures have to wait.
  entry.reported.reset();
  entry.retry.reset();
  reach(entry, address, target, home);
}

void AgentPool::reach(Entry& entry, const NodeAddress& address, const ComputeTarget& target,
                      const std::string& home) {
  AgentLaunch launch = launch_;
  launch.home = home;
  launch.target = target.name;
  launch.connect = target.connect;
  // A host that is silent for the whole lease is lost, whatever its target says of silence.
  launch.connect.silence = std::min(launch.connect.silence, target.lease.value_or(far_lease));
  if (!entry.connection) {
    entry.connection = std::make_unique<AgentConnection>(timers_, transport_, address, launch,
                                                         target.lease, events_of(address.id));
  }
  entry.connection->watch_notice(target.notice_file);
  entry.connection->watch_health(target.health);
  // The agent learns its lease when it is greeted.
  const bool moved = entry.connection->address() != address || entry.connection->home() != home ||
                     entry.connection->lease() != target.lease;
  entry.connection->move_to(address, std::move(launch), target.lease);
  if (moved) {
    entry.connection->drop(
        {LinkFailureKind::lost, "node " + address.id.value + " has another address or lease now"});
    entry.retry.reset();
    entry.reported.reset();
  }
  if (!entry.connection->is_idle() || entry.retry) return;
  entry.connection->connect();
}

void AgentPool::await(const NodeAddress& address, const ComputeTarget& target,
                      const std::string& home) {
  Entry& entry = entries_[address.id];
  entry.awaited = true;
  entry.retry.reset();
  reach(entry, address, target, home);
  // Who waited at another address or lease was told that it is lost, and waits no more.
  entry.awaited = true;
}

void AgentPool::await_no_more(const NodeId& node) {
  const auto found = entries_.find(node);
  if (found == entries_.end()) return;
  found->second.awaited = false;
  if (!found->second.is_tried()) found->second.retry.reset();
}

void AgentPool::set_wanted(const std::set<NodeId>& nodes) {
  for (auto& [node, entry] : entries_) {
    entry.wanted = nodes.contains(node);
    if (entry.is_tried() && entry.connection->is_idle() && !entry.retry)
      entry.connection->connect();
  }
}

void AgentPool::failed(const NodeId& node, const LinkFailure& failure) {
  Entry& entry = entries_.at(node);
  if (entry.up_since && timers_.now() - *entry.up_since >= steady_link) entry.backoff = {};
  entry.up_since.reset();
  const bool news = !entry.reported || entry.reported->kind != failure.kind ||
                    entry.reported->is_denied != failure.is_denied;
  entry.reported = failure;
  entry.backoff = std::clamp(entry.backoff * 2, first_backoff, longest_backoff);
  entry.retry = timers_.after(entry.backoff, [this, node] {
    Entry& again = entries_.at(node);
    again.retry.reset();
    if (again.is_tried() && again.connection->is_idle()) again.connection->connect();
  });
  if (entry.awaited) {
    for (NodeListener* each : listeners_) each->node_failed(node, failure);
  }
  if (!news) return;
  for (NodeListener* each : listeners_) each->node_down(node, failure);
}

AgentConnection* AgentPool::find(const NodeId& node) const {
  const auto found = entries_.find(node);
  return found == entries_.end() ? nullptr : found->second.connection.get();
}

AgentConnection* AgentPool::up(const NodeId& node) {
  AgentConnection* connection = find(node);
  return connection != nullptr && connection->is_up() ? connection : nullptr;
}

void AgentPool::send(const NodeId& node, const ToAgent& message, std::string_view payload) {
  if (auto* connection = up(node)) connection->send(message, payload);
}

std::size_t AgentPool::queued_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [node, entry] : entries_) bytes += entry.connection->queued_bytes();
  return bytes;
}

void AgentPool::retire_all() {
  for (auto& [node, entry] : entries_) {
    if (entry.connection->is_up()) entry.connection->send(Retire{});
  }
}

}  // namespace muster
