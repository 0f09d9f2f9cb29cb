// The world's part that breaks things, and mends them when the time of faults is over.
#include "tests/sim/time_units.h"
#include "tests/sim/world.h"

namespace muster::sim {

void World::plan_faults() {
  const int total = settings_.minutes * settings_.faults_per_minute;
  for (int i = 0; i < total; ++i) {
    const Milliseconds when = dice_.time(second, settings_.minutes * minute);
    events_.after(when, [this] { break_something(); });
  }
}

// Beside the other faults, whose dice it leaves alone.
void World::plan_sickness() {
  for (int i = 0; i < settings_.minutes * 2; ++i) {
    const Milliseconds when = dice_.time(second, settings_.minutes * minute);
    events_.after(when, [this] {
      if (!calm_) some_node().fall_sick();
    });
  }
}

void World::break_something() {
  if (calm_) return;
  faults_ += 1;
  const int what = dice_.upto(100);
  if (what < 12) {
    kill_in_ = 1 + dice_.upto(200);
    return promises_.event("the controller will be killed at place " + std::to_string(kill_in_));
  }
  if (what < 15) return kill_controller("between two turns");
  if (what < 19) {
    promises_.event("the controller's disk is full");
    disk_full_ = true;
    return events_.after(dice_.time(second, 20 * second), [this] { disk_full_ = false; });
  }
  if (what < 23) return break_many();
  if (what < 65) return break_network(some_node());
  break_host(some_node());
}

// A switch, a rack: half of the nodes or fewer lose the same thing at once.
void World::break_many() {
  const int count = 1 + dice_.upto(std::max(1, settings_.nodes / 2));
  const int first = dice_.upto(settings_.nodes);
  const bool power = dice_.chance(30);
  const Milliseconds lasts = dice_.time(second, 3 * minute);
  promises_.event(std::to_string(count) + " nodes lose " + (power ? "power" : "the network"));
  for (int i = 0; i < count; ++i) {
    ModelNode& node = *nodes_[static_cast<std::size_t>((first + i) % settings_.nodes)];
    if (power) node.power_off();
    else node.weather.to_node_blocked = node.weather.to_controller_blocked = true;
    events_.after(lasts, [&node] {
      node.power_on();
      node.weather.to_node_blocked = node.weather.to_controller_blocked = false;
    });
  }
}

void World::break_network(ModelNode& node) {
  Weather& weather = node.weather;
  const Milliseconds lasts = dice_.time(second, dice_.chance(30) ? 4 * minute : 25 * second);
  const int what = dice_.upto(11);
  promises_.event(node.id().value + ": network fault " + std::to_string(what) + " for " +
                  std::to_string(lasts.count()) + " ms");
  switch (what) {
    case 0:
    case 1: return node.reset_connections();
    case 2: return node.cut_connections();
    case 3: weather.to_node_blocked = weather.to_controller_blocked = true; break;
    case 4: weather.to_node_blocked = true; break;
    case 5: weather.to_controller_blocked = true; break;
    case 6:
      weather.latency = dice_.time(Milliseconds{100}, 6 * second);
      weather.jitter = dice_.time(Milliseconds{0}, 4 * second);
      break;
    case 7:
      weather.refusal = {LinkFailureKind::unreachable, node.id().value + " refused the connection",
                         false, true};
      node.reset_connections();
      break;
    case 8:
    case 9: return hold_back(node, lasts);
    default:
      if (!dice_.chance(20)) return node.reset_connections();
      weather.refusal = {LinkFailureKind::refused_key, node.id().value + " accepts no key of ours"};
      node.reset_connections();
  }
  events_.after(lasts, [&weather] { weather = Weather{}; });
}

// What was sent arrives after all, when nobody is let in any more.
void World::hold_back(ModelNode& node, Milliseconds lasts) {
  Weather& weather = node.weather;
  weather.to_node_blocked = true;
  events_.after(dice_.time(15 * second, 55 * second), [this, &node, lasts] {
    if (calm_) return;
    node.weather.to_node_blocked = false;
    node.weather.refusal = {LinkFailureKind::unreachable, node.id().value + " refuses everybody",
                            false, true};
    events_.after(minute + lasts, [&node] { node.weather = Weather{}; });
  });
}

void World::break_host(ModelNode& node) {
  const Milliseconds lasts = dice_.time(second, dice_.chance(30) ? 5 * minute : 40 * second);
  const int what = dice_.upto(11);
  promises_.event(node.id().value + ": host fault " + std::to_string(what) + " for " +
                  std::to_string(lasts.count()) + " ms");
  switch (what) {
    case 0: return node.crash_agent("crashes");
    case 1:
    case 2: return node.kill_a_rank();
    case 3:
      node.power_off();
      return events_.after(dice_.chance(50) ? lasts : 5 * second, [&node] { node.power_on(); });
    case 4: node.is_healthy = false; break;
    case 5: node.lies = true; break;
    case 6: node.disk_full = true; break;
    case 7: node.ports_taken = true; break;
    case 8: node.processes_stick = true; break;
    case 9:
      node.give_notice(dice_.chance(70) ? std::optional(lasts) : std::nullopt);
      return events_.after(lasts, [&node] { node.withdraw_notice(); });
    default:
      node.crash_agent("is killed");
      return node.kill_a_rank();
  }
  events_.after(lasts, [&node] {
    const Weather weather = node.weather;
    if (node.is_on()) node.heal();
    node.weather = weather;
  });
}

// Everything is mended, and nobody's hand lies on a node any more.
void World::heal() {
  if (!promises_.problems().empty()) return;
  promises_.event("the faults are over");
  calm_ = true;
  kill_in_ = 0;
  disk_full_ = false;
  for (const auto& node : nodes_) {
    node->heal();
    const auto known = promises_.state().nodes.find(node->id());
    if (known == promises_.state().nodes.end()) continue;
    if (known->second.drained || known->second.set_aside) undrain(node->id());
  }
}

void World::undrain(const NodeId& node) {
  if (!controller_ || life_->is_over()) {
    return events_.after(second, [this, node] { undrain(node); });
  }
  request("undrain " + node.value, NodeDrainSet{node, false, "", {}});
}

}  // namespace muster::sim
