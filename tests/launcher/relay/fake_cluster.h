// Nodes that can be reached directly and from each other, in virtual time: a stateful model of the
// hosts, their relays and the network between them. Everything of the fan-out above it is real.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "launcher/relay/fan_out_tree.h"
#include "launcher/wire/frame.h"
#include "launcher/wire/relay_message.h"
#include "tests/launcher/controller/hand_timers.h"

namespace muster {

struct FakeNode {
  Milliseconds start{100};    // of its agent or of a relay
  bool is_off = false;        // connections to it time out
  bool is_walled = false;     // it reaches no other node
  bool stands_still = false;  // its relays say nothing any more
  int direct_tries = 0;
  int tries_from_nodes = 0;
  std::shared_ptr<std::set<class FakeRelay*>> relays =
      std::make_shared<std::set<class FakeRelay*>>();
};

class FakeCluster;

// What runs on a node at the other end of a relay's link.
class FakeRelay : public std::enable_shared_from_this<FakeRelay> {
 public:
  FakeRelay(FakeCluster& cluster, NodeId node, std::function<void(std::string)> say);
  ~FakeRelay();
  void hear(std::string_view bytes);
  void die();  // says so to whoever listens
  void close_tickets(const NodeId& node, bool relays_too);

  std::function<void()> on_death;

 private:
  struct Ticket {
    NodeId node;
    std::shared_ptr<FakeRelay> deeper;
  };

  void take(const ToRelay& message, const std::string& payload);
  void send(const FromRelay& message, std::string_view payload = {});
  void reach(const RelayConnect& asked);
  void reached(const RelayConnect& asked);

  FakeCluster& cluster_;
  NodeId node_;
  std::shared_ptr<std::set<FakeRelay*>> all_;  // of the node; outlives the cluster
  std::function<void(std::string)> say_;
  FrameReader reader_;
  std::map<std::int64_t, Ticket> tickets_;
};

class FakeCluster final : public Transport {
 public:
  FakeCluster(HandTimers& time, int count) : timers(time) {
    for (int i = 1; i <= count; ++i) nodes[NodeId{"n" + std::to_string(i)}];
  }

  void connect(const NodeAddress& node, const AgentLaunch& launch,
               std::function<void(ConnectResult)> done) override;

  // The host goes, with all that leads through it.
  void power_off(const NodeId& node);
  // The agent goes, and with it what leads to it; the host's relay stays.
  void cut_link(const NodeId& node);
  void kill_relays(const NodeId& node);
  // The network of the controller was away for too long.
  void cut_everything();
  int relays() const;  // on all nodes

  HandTimers& timers;
  std::map<NodeId, FakeNode> nodes;
  std::map<NodeId, std::set<std::shared_ptr<std::function<void()>>>> cuts;  // of direct links
};

}  // namespace muster
