// The world's part that runs the controller process: its lives, its deaths, what it connects to.
#include "launcher/controller/store/store.h"
#include "scheduler/apply/apply.h"
#include "tests/sim/model/dump.h"
#include "tests/sim/world.h"

namespace muster::sim {

namespace {

constexpr Milliseconds shortest_death{50};
constexpr Milliseconds longest_death{90'000};
constexpr Milliseconds connect_limit{20'000};
// A controller of thousands of nodes hears many messages between two turns.
constexpr int nodes_per_turn_ms = 100;

// A journal of live jobs leaves out how it was before them: jobs count from what is still there,
// and a node that was lost before is known to be lost since the last word about it.
void forget_the_past(State& state) {
  std::map<std::int64_t, Job*> by_order;
  Time begin = Time::max();
  for (auto& [id, job] : state.jobs) {
    by_order[job.order] = &job;
    begin = std::min(begin, job.submitted_at);
  }
  state.next_order = 0;
  for (auto& [order, job] : by_order) job->order = state.next_order++;
  std::erase_if(state.nodes, [](const auto& item) { return !item.second.owner; });
  for (auto& [id, node] : state.nodes) {
    auto* lost = std::get_if<Unlinked>(&node.link);
    if (lost != nullptr && lost->since <= begin) {
      lost->since = lost->heard_at = lost->failed_at;
      if (lost->sought_since) lost->sought_since = lost->failed_at;
    }
    node.faults_heard.clear();  // the new controller's greeting forgets it anyway
  }
}

// Where they part; empty: they are the same.
std::string difference(const std::string& before, const std::string& after) {
  if (before == after) return {};
  std::size_t at = 0;
  while (at < before.size() && at < after.size() && before[at] == after[at]) at += 1;
  at = at > 60 ? at - 60 : 0;
  return "'" + before.substr(at, 200) + "' became '" + after.substr(at, 200) + "'";
}

std::set<NodeId> drained_nodes(const State& state) {
  std::set<NodeId> drained;
  for (const auto& [id, node] : state.nodes) {
    if (node.drained) drained.insert(id);
  }
  return drained;
}

}  // namespace

// The controller's way to the nodes; what the network does is the world's.
class World::VirtualTransport : public Transport {
 public:
  VirtualTransport(World& world, std::shared_ptr<Life> life)
      : world_(world), life_(std::move(life)) {}
  void connect(const NodeAddress& node, const AgentLaunch&,
               std::function<void(ConnectResult)> done) override {
    world_.maybe_kill();
    world_.connect(life_, node, std::move(done));
  }

 private:
  World& world_;
  std::shared_ptr<Life> life_;
};

void World::start_controller() {
  life_ = std::make_shared<Life>([this] { controller_died(); });
  timers_ = std::make_unique<VirtualTimers>(events_, life_,
                                            Milliseconds{settings_.nodes / nodes_per_turn_ms});
  ControllerSettings settings;
  settings.home.root = folder_;
  settings.launch.controller_id = "sim";
  settings.launch.build_id = "sim";
  settings.idle_limit = Seconds{0};
  controllers_ += 1;
  check_replay();
  life_->enter([&] {
    controller_ = std::make_unique<Controller>(
        *timers_, settings, open_journal(), std::make_unique<VirtualTransport>(*this, life_),
        Controller::Process{[] { return false; }, [] {},
                            [this, life = life_](const auto& argv, Milliseconds, auto done) {
                              run_here(life, argv, done);
                              return [] {};
                            }});
    if (auto started = controller_->start(); !started) {
      promises_.broken("the controller does not start: " + started.error().message);
    }
  });
}

// The one command of its host that a controller has: it outlives the controller.
void World::run_here(const std::shared_ptr<Life>& life, const std::vector<std::string>& argv,
                     const std::function<void(const CommandEnded&)>& done) {
  maybe_kill();
  ModelNode& node = *by_id_.at(NodeId{argv.at(1)});
  const bool fails = dice_.chance(20);
  events_.after(dice_.time(Milliseconds{10}, Milliseconds{5'000}), [life, &node, fails, done] {
    if (!fails) node.power_cycle_from_outside();
    life->enter([&] { done({{fails ? 1 : 0, 0}, "", {}}); });
  });
}

std::unique_ptr<Journal> World::open_journal() {
  std::unique_ptr<Journal> inner = std::make_unique<MemoryJournal>(disk_);
  if (settings_.sqlite) {
    auto store = Store::open(folder_, Store::Mode::read_write);
    if (!store)
      promises_.broken(store.error().message);
    else
      inner = std::move(*store);
  }
  FaultyJournal::Hooks hooks;
  hooks.is_full = [this] { return disk_full_; };
  hooks.before_append = [this] { maybe_kill(); };
  hooks.appended = [this](const std::vector<Record>& records) {
    recorded(records);
    maybe_kill();
  };
  hooks.forgets = [this] { return settings_.planted.forgets_writes && dice_.one_in(50); };
  return std::make_unique<FaultyJournal>(std::move(inner), std::move(hooks));
}

// The state that a new controller begins with is the one that the last one had.
void World::check_replay() {
  if (settings_.nodes > 200) return;
  const auto live = open_journal()->load_live();
  if (!live) return promises_.broken("the journal cannot be read: " + live.error().message);
  State state;
  for (const Record& record : *live) apply(state, record);
  State before = promises_.state();
  if (drained_nodes(before) != drained_nodes(state)) {
    promises_.broken("I6: a new controller knows of other drained nodes");
  }
  forget_the_past(before);
  forget_the_past(state);
  const std::string parted = difference(describe(before), describe(state));
  if (!parted.empty()) {
    promises_.broken("I6: a new controller begins with another state: " + parted);
  }
}

void World::maybe_kill() {
  if (kill_in_ == 0 || --kill_in_ > 0) return;
  throw Killed{};
}

void World::kill_controller(const std::string& why) {
  if (!controller_ || life_->is_over()) return;
  promises_.event("the controller is killed " + why);
  life_->end();
  controller_died();
}

// It may still be on the stack: it is taken away by the next event.
void World::controller_died() {
  promises_.event("the controller dies");
  kill_in_ = 0;
  events_.after(Milliseconds{0}, [this] { controller_.reset(); });
  events_.after(dice_.time(shortest_death, dice_.one_in(3) ? longest_death : shortest_death * 20),
                [this] { start_controller(); });
}

void World::connect(const std::shared_ptr<Life>& life, const NodeAddress& address,
                    std::function<void(ConnectResult)> done) {
  ModelNode& node = *by_id_.at(address.id);
  const auto fail = [this, life, done, &node](Milliseconds delay, LinkFailure failure) {
    node.was_not_reached();
    events_.after(delay, [life, done, failure] { life->enter([&] { done(failure); }); });
  };
  if (node.weather.refusal) return fail(node.weather.latency, *node.weather.refusal);
  if (!node.is_on() || node.weather.blocked()) {
    return fail(connect_limit, {LinkFailureKind::unreachable,
                                address.id.value + " gave no answer: connection timed out"});
  }
  const Milliseconds delay = 2 * node.weather.latency + node.start_time();
  events_.after(delay, [this, life, &node, done, fail] {
    if (life->is_over()) return;
    auto connection = node.weather.blocked() ? nullptr : node.accept();
    if (!connection) {
      return fail(Milliseconds{0}, {LinkFailureKind::unreachable,
                                    node.id().value + " refused: connection reset by peer"});
    }
    auto link = std::make_shared<std::unique_ptr<Link>>(
        std::make_unique<VirtualLink>(life, std::move(connection), [this] { maybe_kill(); }));
    const std::chrono::microseconds took = node.weather.latency;
    Connected connected{std::move(*link), {{"simulated", took.count()}}};
    // Sometimes nobody has measured it: an agent's lease is another after each connection.
    if (!dice_.one_in(3)) connected.round_trip = took;
    life->enter([&] { done(std::move(connected)); });
  });
}

}  // namespace muster::sim
