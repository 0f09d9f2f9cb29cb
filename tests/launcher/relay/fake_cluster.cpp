#include "tests/launcher/relay/fake_cluster.h"

#include "launcher/wire/message_codec.h"

namespace muster {
namespace {

constexpr Milliseconds tcp_timeout{10000};

// Both ends of a link: what the owner writes goes to `hear`, `cut` ends it from the other side.
class ModelLink final : public Link {
 public:
  struct Wire {
    Handlers handlers;
    bool is_over = false;
    std::function<void(std::string)> hear;
  };

  ModelLink(HandTimers& timers, std::shared_ptr<Wire> wire)
      : timers_(timers), wire_(std::move(wire)) {}
  ~ModelLink() override { wire_->is_over = true; }
  void start(Handlers handlers) override { wire_->handlers = std::move(handlers); }
  void write(std::string bytes) override {
    timers_.post([wire = wire_, bytes = std::move(bytes)] {
      if (!wire->is_over && wire->hear) wire->hear(bytes);
    });
  }
  std::size_t queued_bytes() const override { return 0; }

  static void cut(const std::shared_ptr<Wire>& wire) {
    if (std::exchange(wire->is_over, true)) return;
    if (wire->handlers.on_closed) wire->handlers.on_closed({LinkFailureKind::lost, "cut"});
  }

 private:
  HandTimers& timers_;
  std::shared_ptr<Wire> wire_;
};

std::unique_ptr<Link> relay_link(FakeCluster& cluster, const NodeId& node) {
  auto wire = std::make_shared<ModelLink::Wire>();
  auto relay = std::make_shared<FakeRelay>(
      cluster, node, [&cluster, weak = std::weak_ptr(wire)](std::string bytes) {
        cluster.timers.post([weak, bytes = std::move(bytes)] {
          const auto open = weak.lock();
          if (!open || open->is_over) return;
          open->handlers.on_bytes(std::as_bytes(std::span(bytes)));
        });
      });
  relay->on_death = [weak = std::weak_ptr(wire)] {
    if (const auto open = weak.lock()) ModelLink::cut(open);
  };
  wire->hear = [relay](const std::string& bytes) { relay->hear(bytes); };
  return std::make_unique<ModelLink>(cluster.timers, std::move(wire));
}

}  // namespace

void FakeCluster::connect(const NodeAddress& address, const AgentLaunch& launch,
                          std::function<void(ConnectResult)> done) {
  const NodeId id = address.id;
  const bool is_relay = launch.service == AgentService::relay;
  FakeNode& node = nodes.at(id);
  node.direct_tries += !is_relay;
  timers.plan(node.is_off ? tcp_timeout : node.start, [this, id, is_relay, done = std::move(done)] {
    if (nodes.at(id).is_off) {
      return done(LinkFailure{LinkFailureKind::unreachable, id.value + ": no answer"});
    }
    if (is_relay) return done(Connected{relay_link(*this, id), {}});
    auto wire = std::make_shared<ModelLink::Wire>();
    cuts[id].insert(std::make_shared<std::function<void()>>([wire] { ModelLink::cut(wire); }));
    done(Connected{std::make_unique<ModelLink>(timers, std::move(wire)), {}});
  });
}

void FakeCluster::power_off(const NodeId& id) {
  FakeNode& node = nodes.at(id);
  node.is_off = true;
  kill_relays(id);
  for (const auto& cut : std::exchange(cuts[id], {})) (*cut)();
  for (auto& [other, each] : nodes) {
    for (FakeRelay* relay : std::set(*each.relays)) relay->close_tickets(id, true);
  }
}

void FakeCluster::cut_link(const NodeId& id) {
  for (const auto& cut : std::exchange(cuts[id], {})) (*cut)();
  for (auto& [other, each] : nodes) {
    for (FakeRelay* relay : std::set(*each.relays)) relay->close_tickets(id, false);
  }
}

void FakeCluster::kill_relays(const NodeId& id) {
  const auto relays = nodes.at(id).relays;
  for (FakeRelay* relay : std::set(*relays)) {
    if (relays->contains(relay)) relay->die();
  }
}

void FakeCluster::cut_everything() {
  for (auto& [id, node] : nodes) kill_relays(id);
  for (auto& [id, node] : nodes) cut_link(id);
}

int FakeCluster::relays() const {
  int all = 0;
  for (const auto& [id, node] : nodes) all += static_cast<int>(node.relays->size());
  return all;
}

FakeRelay::FakeRelay(FakeCluster& cluster, NodeId node, std::function<void(std::string)> say)
    : cluster_(cluster),
      node_(std::move(node)),
      all_(cluster.nodes.at(node_).relays),
      say_(std::move(say)) {
  all_->insert(this);
}

FakeRelay::~FakeRelay() { all_->erase(this); }

void FakeRelay::die() {
  const auto self = shared_from_this();
  say_ = [](const std::string&) {};
  tickets_.clear();
  if (on_death) on_death();
}

void FakeRelay::close_tickets(const NodeId& node, bool relays_too) {
  for (auto at = tickets_.begin(); at != tickets_.end();) {
    if (at->second.node != node || (at->second.deeper && !relays_too)) {
      ++at;
      continue;
    }
    send(RelayClosed{at->first, {LinkFailureKind::lost, node.value + ": cut"}});
    at = tickets_.erase(at);
  }
}

void FakeRelay::hear(std::string_view bytes) {
  reader_.feed(std::as_bytes(std::span(bytes)));
  for (auto frame = reader_.next(); frame && *frame; frame = reader_.next()) {
    auto message = decode<ToRelay>(std::move(**frame));
    if (message && !cluster_.nodes.at(node_).stands_still) {
      take(message->message, message->payload);
    }
  }
}

void FakeRelay::send(const FromRelay& message, std::string_view payload) {
  say_(encode(message, payload));
}

void FakeRelay::take(const ToRelay& message, const std::string& payload) {
  if (const auto* asked = std::get_if<RelayConnect>(&message)) return reach(*asked);
  if (std::holds_alternative<RelayPing>(message)) return send(RelayPing{});
  if (const auto* over = std::get_if<RelayHangUp>(&message)) {
    tickets_.erase(over->ticket);
  } else if (const auto* bytes = std::get_if<RelayBytes>(&message)) {
    const auto ticket = tickets_.find(bytes->ticket);
    if (ticket == tickets_.end()) return;
    send(RelayRoom{bytes->ticket, static_cast<std::int64_t>(payload.size())});
    if (ticket->second.deeper) std::shared_ptr(ticket->second.deeper)->hear(payload);
  }
}

void FakeRelay::reach(const RelayConnect& asked) {
  FakeNode& child = cluster_.nodes.at(asked.node.id);
  child.tries_from_nodes += !asked.is_relay;
  cluster_.timers.plan(child.is_off ? tcp_timeout : child.start, [weak = weak_from_this(), asked] {
    if (const auto self = weak.lock()) self->reached(asked);
  });
}

void FakeRelay::reached(const RelayConnect& asked) {
  const NodeId& node = asked.node.id;
  if (cluster_.nodes.at(node_).is_walled || cluster_.nodes.at(node).is_off) {
    return send(
        RelayClosed{asked.ticket, {LinkFailureKind::unreachable, node.value + ": no answer"}});
  }
  std::shared_ptr<FakeRelay> deeper;
  if (asked.is_relay) {
    deeper = std::make_shared<FakeRelay>(
        cluster_, node, [weak = weak_from_this(), ticket = asked.ticket](const std::string& said) {
          if (const auto self = weak.lock()) self->send(RelayBytes{ticket}, said);
        });
  }
  tickets_[asked.ticket] = {node, std::move(deeper)};
  RelayConnected connected;
  connected.ticket = asked.ticket;
  send(connected);
}

}  // namespace muster
