// The nodes of one compute target as the fan-out knows them: who is connected how, who waits, whose
// relay works. Private to launcher/relay; owned by FanOut, on the controller's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/os/timers.h"
#include "launcher/relay/relay_client.h"
#include "launcher/transport/link/transport.h"

namespace muster {

// Which way a node is reached: directly, or through another that is already connected. Parents are
// only ever nodes whose relay works, so that a slow or dead one is nobody's parent: there is no
// plan to be waited for. Those that are there first take the others, evenly, the shallowest first.
// Pure.

// A node whose relay works.
struct FanOutParent {
  NodeId id;
  int depth = 1;     // 1: connected directly
  int children = 0;  // connected or being connected
};

// A target as one of its nodes is about to be reached.
struct FanOutView {
  int nodes = 0;      // connected, being connected or waiting, with this one
  int direct = 0;     // of these, connected directly or being so
  int hopeful = 0;    // will soon be parents: in their first try, or with a relay that is starting
  int returning = 0;  // have been there and lost a link or a relay: hope when there is no place
  bool is_proven = false;     // a node has been reached through another
  bool is_broken = false;     // lately none could be
  bool is_impatient = false;  // the node has waited long enough
  std::vector<FanOutParent> parents;
};

struct GoDirectly {};
struct GoThrough {
  NodeId parent;
};
struct StayWaiting {};
using FanOutWay = std::variant<GoDirectly, GoThrough, StayWaiting>;

// Whether one more connected node gets a relay: `waiting` nodes have no way yet, and `starting`
// relays will soon be there.
bool wants_relay(const ConnectSettings& limits, const FanOutView& view, int waiting, int starting);

// The Transport of a controller with large targets whose nodes need no login: above
// ConnectSettings::fan_out_above nodes it reaches some directly and the others through these, in a
// tree of relays. Nodes over ssh are all reached directly. Everything above sees Links as ever. A
// node that cannot be reached through its parent is tried directly once before it counts as failed;
// when a relay is lost, the nodes behind it are reached anew, each by whatever way there is then.
// One thread.
//
//   node: out -> waiting -> connecting (directly or through a parent) -> up

class FanOutTree;

class FanOut final : public Transport {
 public:
  using Note = std::function<void(const std::string& sentence)>;  // for the controller's log

  FanOut(Timers& timers, std::unique_ptr<Transport> direct, Note note)
      : timers_(timers), direct_(std::move(direct)), note_(std::move(note)) {}

  void connect(const NodeAddress& node, const AgentLaunch& launch, ConnectDone done) override;

 private:
  Timers& timers_;
  std::unique_ptr<Transport> direct_;
  Note note_;
  std::map<std::string, std::shared_ptr<FanOutTree>> trees_;  // by compute target
};

class FanOutTree : public std::enable_shared_from_this<FanOutTree> {
 public:
  FanOutTree(Timers& timers, Transport& direct, std::string target, FanOut::Note note)
      : timers_(timers), direct_(direct), target_(std::move(target)), note_(std::move(note)) {}

  void connect(const NodeAddress& node, const AgentLaunch& launch, ConnectDone done);

 private:
  struct Want {
    NodeAddress node;
    AgentLaunch launch;
    ConnectDone done;
    std::uint64_t attempt = 0;
    SteadyTime since;        // asked for
    SteadyTime under_way{};  // on the way that is tried now
  };
  struct Out {};
  struct Waiting {
    Want want;
  };
  struct Connecting {
    std::optional<NodeId> parent;
  };
  struct Up {
    std::optional<NodeId> parent;
    int depth = 1;
    NodeAddress node;
    AgentLaunch launch;
  };
  struct NoRelay {};
  struct StartingRelay {};
  struct Member {
    std::variant<Out, Waiting, Connecting, Up> state;
    std::variant<NoRelay, StartingRelay, std::shared_ptr<RelayClient>> relay;
    int relay_depth = 1;
    std::optional<NodeId> relay_through{};  // whose relay carries the relay
    std::uint64_t attempt = 0;     // the newest; an older one's result is not the node's any more
    bool is_fresh = true;          // nothing has gone wrong with it, or it has not been tried
    bool is_alone = false;         // the last try failed: the next one is direct
    SteadyTime no_parent_until{};  // its relay failed, or could not reach a node
    SteadyTime relay_since{};
    Milliseconds pause{0};       // after the newest loss of a relay
    bool is_start_lost = false;  // the way to it was lost while its newest relay was started
  };

  RelayClient* relay_of(const NodeId& node);
  bool is_carried_by(const NodeId& relay, const NodeId& node) const;
  bool can_have_relay(const Member& member) const;
  bool can_soon_have_relay(const Member& member) const;
  FanOutView view() const;
  void replan();
  void plan();
  void end_idle_relays();
  int place(FanOutView& view);  // how many still wait
  FanOutWay way_to(const NodeId& node, const FanOutView& view) const;
  void start_relays(FanOutView& view, int waiting);
  void wait_for_patience();
  void try_directly(const NodeId& node, Want want, std::function<void()> when_there);
  void go_through(const NodeId& node, const NodeId& parent, Want want);
  void failed_through(const NodeId& node, const NodeId& parent, Want want,
                      const LinkFailure& failure);
  void start_relay(const NodeId& node);
  void relay_started(const NodeId& node, ConnectResult result);
  void relay_lost(const NodeId& node);
  void pause(Member& member);
  void suspect(const NodeId& parent);
  void cannot_reach(const NodeId& parent, const NodeId& node, const LinkFailure& failure);
  static void note_way(ConnectProfile& profile, const Want& want);
  void arrived(const NodeId& node, const Want& want, ConnectResult result);

  Timers& timers_;
  Transport& direct_;
  std::string target_;
  FanOut::Note note_;
  ConnectSettings limits_;
  std::map<NodeId, Member> members_;
  std::deque<NodeId> waiting_;  // in order of arrival; some may have left the queue since
  std::uint64_t next_attempt_ = 1;
  std::optional<NodeId> doubted_;  // the first parent that could not reach a node
  bool is_proven_ = false;
  SteadyTime broken_until_{};
  bool is_planned_ = false;
  std::unique_ptr<Alarm> patience_;
};

}  // namespace muster
