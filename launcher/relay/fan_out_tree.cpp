#include "launcher/relay/fan_out_tree.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "launcher/transport/link/remote_process.h"

namespace muster {

namespace {

// A relay that is lost is started again after a pause that doubles, for each loss costs records in
// the journal; one that lasted so long counts as the first.
constexpr Milliseconds shortest_pause{1000}, longest_pause{600'000};
constexpr std::chrono::seconds steady_relay{60};
constexpr Milliseconds shortest_wait{1};  // that is a phase of the launch

// Of the nodes below those that are connected directly, each of these gets so many.
int even_share(const ConnectSettings& limits, const FanOutView& view) {
  const int below = std::max(0, view.nodes - limits.fan_out_radix);
  const int share = (below + limits.fan_out_radix - 1) / limits.fan_out_radix;
  return std::clamp(share, 1, limits.fan_out_radix);
}

// Before anybody was reached through another, one child per parent tries.
int most_children(const ConnectSettings& limits, const FanOutView& view) {
  if (!view.is_proven) return 1;
  const bool others_come = view.hopeful > 0 && !view.is_impatient;
  return others_come ? even_share(limits, view) : limits.fan_out_radix;
}

bool is_being_tried(const FanOutView& view) {
  return !view.is_proven && std::ranges::any_of(view.parents, [](const FanOutParent& one) {
    return one.children > 0;
  });
}

bool is_tree(const ConnectSettings& limits, const FanOutView& view) {
  return view.nodes > limits.fan_out_above && !view.is_broken;
}

FanOutWay way_to_node(const ConnectSettings& limits, const FanOutView& view) {
  if (!is_tree(limits, view) || view.direct < limits.fan_out_radix) return GoDirectly{};
  if (!view.is_proven && view.is_impatient) return GoDirectly{};
  const int most = most_children(limits, view);
  const FanOutParent* best = nullptr;
  for (const FanOutParent& each : view.parents) {
    if (each.children >= most) continue;
    const auto rank = [](const FanOutParent& one) { return std::tie(one.depth, one.children); };
    if (best == nullptr || rank(each) < rank(*best)) best = &each;
  }
  if (best != nullptr) return GoThrough{best->id};
  const bool has_hope = view.hopeful + view.returning > 0 || is_being_tried(view);
  if (has_hope && !view.is_impatient) return StayWaiting{};
  return GoDirectly{};
}

}  // namespace

bool wants_relay(const ConnectSettings& limits, const FanOutView& view, int waiting, int starting) {
  if (!is_tree(limits, view)) return false;
  const int share = even_share(limits, view);
  int room = starting * share;
  for (const FanOutParent& each : view.parents) room += std::max(0, share - each.children);
  return waiting > room;
}

void FanOutTree::connect(const NodeAddress& node, const AgentLaunch& launch, ConnectDone done) {
  limits_ = launch.connect;
  Member& member = members_[node.id];
  const std::uint64_t attempt = member.attempt = next_attempt_++;
  if (const auto* older = std::get_if<Waiting>(&member.state)) {
    timers_.post([done = older->want.done, id = node.id] {
      done(LinkFailure{LinkFailureKind::lost, id.value + ": given up for a newer try"});
    });
  }
  member.state = Waiting{{node, launch, std::move(done), attempt, timers_.now()}};
  waiting_.push_back(node.id);
  replan();
}

RelayClient* FanOutTree::relay_of(const NodeId& node) {
  const auto* relay = std::get_if<std::shared_ptr<RelayClient>>(&members_[node].relay);
  return relay == nullptr ? nullptr : relay->get();
}

bool FanOutTree::is_carried_by(const NodeId& relay, const NodeId& node) const {
  for (std::optional<NodeId> at = relay; at; at = members_.at(*at).relay_through) {
    if (*at == node) return true;
  }
  return false;
}

bool FanOutTree::can_soon_have_relay(const Member& member) const {
  const auto* up = std::get_if<Up>(&member.state);
  return up != nullptr && std::holds_alternative<NoRelay>(member.relay) &&
         timers_.now() + limits_.fan_out_patience >= member.no_parent_until;
}

bool FanOutTree::can_have_relay(const Member& member) const {
  return can_soon_have_relay(member) && timers_.now() >= member.no_parent_until;
}

// Once for all that happens in a turn.
void FanOutTree::replan() {
  if (std::exchange(is_planned_, true)) return;
  timers_.post(while_alive(weak_from_this(), &FanOutTree::plan));
}

void FanOutTree::plan() {
  is_planned_ = false;
  end_idle_relays();
  FanOutView now = view();
  const int waiting = place(now);
  if (waiting == 0) return patience_.reset();
  start_relays(now, waiting);
  wait_for_patience();
}

// Of nodes that nobody is connected to. One that carries others goes on, and ends after these.
void FanOutTree::end_idle_relays() {
  std::multimap<int, Member*, std::greater<>> deepest_first;
  for (auto& [node, member] : members_) {
    const bool has_relay = std::holds_alternative<std::shared_ptr<RelayClient>>(member.relay);
    if (has_relay && std::holds_alternative<Out>(member.state)) {
      deepest_first.emplace(member.relay_depth, &member);
    }
  }
  for (const auto& [depth, member] : deepest_first) {
    if (std::get<std::shared_ptr<RelayClient>>(member->relay)->is_idle()) member->relay = NoRelay{};
  }
}

FanOutView FanOutTree::view() const {
  FanOutView view;
  const SteadyTime now = timers_.now();
  view.is_proven = is_proven_;
  view.is_broken = now < broken_until_;
  for (const auto& [node, member] : members_) {
    view.nodes += !std::holds_alternative<Out>(member.state);
    const auto* connecting = std::get_if<Connecting>(&member.state);
    const auto* up = std::get_if<Up>(&member.state);
    view.direct += (connecting != nullptr && !connecting->parent) || (up != nullptr && !up->parent);
    view.hopeful += (connecting != nullptr && member.is_fresh) ||
                    std::holds_alternative<StartingRelay>(member.relay);
    view.returning +=
        connecting != nullptr ? !member.is_fresh && !member.is_alone : can_soon_have_relay(member);
    const auto* relay = std::get_if<std::shared_ptr<RelayClient>>(&member.relay);
    if (relay == nullptr || now < member.no_parent_until) continue;
    view.parents.push_back({node, member.relay_depth, (*relay)->nodes()});
  }
  return view;
}

// The queue is in order of arrival: behind one that waits on, only others that wait on.
int FanOutTree::place(FanOutView& view) {
  std::deque<NodeId> queue = std::exchange(waiting_, {});
  for (const NodeId& node : queue) {
    auto* waiting = std::get_if<Waiting>(&members_[node].state);
    if (waiting == nullptr) continue;
    view.is_impatient = timers_.now() - waiting->want.since >= limits_.fan_out_patience;
    const FanOutWay way = way_to(node, view);
    if (std::holds_alternative<StayWaiting>(way)) {
      waiting_.push_back(node);
    } else if (const auto* through = std::get_if<GoThrough>(&way)) {
      for (FanOutParent& each : view.parents) each.children += each.id == through->parent;
      go_through(node, through->parent, std::move(waiting->want));
    } else {
      const Member& member = members_[node];
      ++view.direct;
      view.hopeful += member.is_fresh;
      view.returning += !member.is_fresh && !member.is_alone;
      Want want = std::move(waiting->want);
      members_[node].state = Connecting{};
      try_directly(node, std::move(want), {});
    }
  }
  return static_cast<int>(waiting_.size());
}

// Not through its own relay, which is there still although its link was lost.
FanOutWay FanOutTree::way_to(const NodeId& node, const FanOutView& view) const {
  const Member& member = members_.at(node);
  if (member.is_alone) return GoDirectly{};
  if (!std::holds_alternative<std::shared_ptr<RelayClient>>(member.relay)) {
    return way_to_node(limits_, view);
  }
  FanOutView others = view;
  std::erase_if(others.parents,
                [&](const FanOutParent& each) { return is_carried_by(each.id, node); });
  return way_to_node(limits_, others);
}

void FanOutTree::start_relays(FanOutView& view, int waiting) {
  int starting = 0;
  std::vector<std::pair<int, NodeId>> idle;  // by depth
  for (const auto& [node, member] : members_) {
    starting += std::holds_alternative<StartingRelay>(member.relay);
    if (can_have_relay(member)) idle.emplace_back(std::get<Up>(member.state).depth, node);
  }
  std::sort(idle.begin(), idle.end());
  for (const auto& [depth, node] : idle) {
    if (!wants_relay(limits_, view, waiting, starting)) return;
    ++starting;
    start_relay(node);
  }
}

// Until the first of them has waited long enough, or another relay can be started.
void FanOutTree::wait_for_patience() {
  const auto* first = std::get_if<Waiting>(&members_[waiting_.front()].state);
  if (first == nullptr) return replan();
  SteadyTime until = first->want.since + limits_.fan_out_patience;
  for (const auto& [node, member] : members_) {
    if (can_soon_have_relay(member) && !can_have_relay(member)) {
      until = std::min(until, member.no_parent_until);
    }
  }
  const auto left = std::chrono::ceil<Milliseconds>(until - timers_.now());
  patience_ = timers_.after(std::max(left, Milliseconds{1}), [this] { replan(); });
}

void FanOutTree::try_directly(const NodeId& node, Want want, std::function<void()> when_there) {
  want.under_way = timers_.now();
  const auto tried = [node, want, when_there = std::move(when_there)](FanOutTree& self,
                                                                      ConnectResult result) {
    if (when_there && std::holds_alternative<Connected>(result)) when_there();
    self.arrived(node, want, std::move(result));
  };
  direct_.connect(want.node, want.launch, while_alive(weak_from_this(), tried));
}

void FanOutTree::go_through(const NodeId& node, const NodeId& parent, Want want) {
  members_[node].state = Connecting{parent};
  want.under_way = timers_.now();
  const auto tried = [node, parent, want](FanOutTree& self, ConnectResult result) {
    if (const auto* why = std::get_if<LinkFailure>(&result)) {
      return self.failed_through(node, parent, want, *why);
    }
    self.is_proven_ = true;
    self.arrived(node, want, std::move(result));
  };
  relay_of(parent)->connect(want.node, want.launch, while_alive(weak_from_this(), tried));
}

// Directly, once. That this works shows that the parent is at fault, unless it was lost meanwhile.
void FanOutTree::failed_through(const NodeId& node, const NodeId& parent, Want want,
                                const LinkFailure& failure) {
  RelayClient* relay = relay_of(parent);
  const bool is_parent_there = relay != nullptr && !relay->is_lost();
  Member& member = members_[node];
  if (member.attempt == want.attempt) {
    member.state = Connecting{};
    member.is_fresh = false;
  }
  if (!is_proven_) suspect(parent);
  try_directly(node, std::move(want), [this, node, parent, failure, is_parent_there] {
    if (is_parent_there) cannot_reach(parent, node, failure);
  });
  replan();
}

// Nobody else tries through it until the direct try has shown whose fault it was.
void FanOutTree::suspect(const NodeId& parent) {
  Member& member = members_[parent];
  const SteadyTime until = timers_.now() + limits_.fan_out_patience;
  member.no_parent_until = std::max(member.no_parent_until, until);
}

// Before any node was reached through another, one failure may be that of the parent or of a node
// that just came up; two parents that fail are the network or the keys.
void FanOutTree::cannot_reach(const NodeId& parent, const NodeId& node,
                              const LinkFailure& failure) {
  const SteadyTime until = timers_.now() + limits_.fan_out_set_aside;
  const SteadyTime before = std::exchange(members_[parent].no_parent_until, until);
  const std::string so_long = std::to_string(limits_.fan_out_set_aside / Seconds{1}) + " s";
  if (!doubted_) doubted_ = parent;
  if (is_proven_ || *doubted_ == parent) {
    if (before > timers_.now() + limits_.fan_out_patience) return;  // said for another node
    return note_("target " + target_ + ": " + parent.value + " cannot reach " + node.value +
                 ", which this host can; it gets no more nodes for " + so_long + ": " +
                 failure.message);
  }
  if (timers_.now() < broken_until_) return;
  broken_until_ = until;
  note_("target " + target_ +
        ": nodes do not reach each other, so all are connected "
        "directly for " +
        so_long + ": " + failure.message);
}

// By the way that leads to the node itself.
void FanOutTree::start_relay(const NodeId& node) {
  Member& member = members_[node];
  const Up& up = std::get<Up>(member.state);
  member.relay = StartingRelay{};
  member.relay_depth = up.depth;
  member.relay_through = up.parent;
  AgentLaunch launch = up.launch;
  launch.service = AgentService::relay;
  const auto started =
      while_alive(weak_from_this(), [node](FanOutTree& self, ConnectResult result) {
        self.relay_started(node, std::move(result));
      });
  RelayClient* parent = up.parent ? relay_of(*up.parent) : nullptr;
  if (!up.parent) return direct_.connect(up.node, launch, started);
  if (parent != nullptr) return parent->connect(up.node, launch, started);
  timers_.post([started, node] {
    started(LinkFailure{LinkFailureKind::lost, node.value + ": the way to it was lost"});
  });
}

void FanOutTree::relay_started(const NodeId& node, ConnectResult result) {
  Member& member = members_[node];
  replan();
  if (const auto* failure = std::get_if<LinkFailure>(&result)) {
    member.relay = NoRelay{};
    // Once is no fault of the node: the way to it was lost at the same time.
    const bool is_lost = failure->kind == LinkFailureKind::lost;
    if (!std::exchange(member.is_start_lost, is_lost) && is_lost) return pause(member);
    member.no_parent_until = timers_.now() + limits_.fan_out_set_aside;
    return note_("target " + target_ + ": " + node.value +
                 " leads to no other node: " + failure->message);
  }
  const auto lost = [node](FanOutTree& self) { self.relay_lost(node); };
  auto relay = std::make_shared<RelayClient>(timers_, node, limits_.fan_out_silence,
                                             std::move(std::get<Connected>(result).link),
                                             while_alive(weak_from_this(), lost));
  member.relay = relay;
  member.relay_since = timers_.now();
  member.is_start_lost = false;
  relay->start();
}

// Later: this is called from inside it.
void FanOutTree::relay_lost(const NodeId& node) {
  Member& member = members_[node];
  timers_.post([dead = std::exchange(member.relay, NoRelay{})] {});
  pause(member);
  replan();
}

void FanOutTree::pause(Member& member) {
  const bool was_steady = timers_.now() - member.relay_since >= steady_relay;
  const Milliseconds longer = std::clamp(member.pause * 2, shortest_pause, longest_pause);
  member.pause = was_steady ? shortest_pause : longer;
  member.no_parent_until = std::max(member.no_parent_until, timers_.now() + member.pause);
}

// The time that went before a way was found that works.
void FanOutTree::note_way(ConnectProfile& profile, const Want& want) {
  const auto took = want.under_way - want.since;
  if (took < shortest_wait) return;
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  profile.insert(profile.begin(), {"way", us});
}

void FanOutTree::arrived(const NodeId& node, const Want& want, ConnectResult result) {
  Member& member = members_[node];
  auto* connected = std::get_if<Connected>(&result);
  if (connected != nullptr) note_way(connected->profile, want);
  if (member.attempt == want.attempt) {
    member.is_fresh = false;
    member.is_alone = connected == nullptr;
    if (connected == nullptr) {
      member.state = Out{};
    } else {
      const int depth = connected->through ? members_[*connected->through].relay_depth + 1 : 1;
      member.state = Up{connected->through, depth, want.node, want.launch};
      const auto gone = [node, attempt = want.attempt](FanOutTree& self) {
        Member& left = self.members_[node];
        if (left.attempt == attempt) left.state = Out{};
        self.replan();
      };
      connected->link = std::make_unique<WatchedLink>(std::move(connected->link),
                                                      while_alive(weak_from_this(), gone));
    }
  }
  replan();
  want.done(std::move(result));
}

void FanOut::connect(const NodeAddress& node, const AgentLaunch& launch, ConnectDone done) {
  if (node.transport != TransportKind::local) {
    return direct_->connect(node, launch, std::move(done));
  }
  auto& tree = trees_[launch.target];
  if (!tree) tree = std::make_shared<FanOutTree>(timers_, *direct_, launch.target, note_);
  tree->connect(node, launch, std::move(done));
}

}  // namespace muster
