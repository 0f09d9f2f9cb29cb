#include "tests/launcher/controller/blame_world.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <random>

#include "launcher/controller/agents/clock_offset.h"
#include "scheduler/failure/first_failure.h"
#include "scheduler/model/result.h"

namespace muster::test {

namespace {

constexpr int ranks = 64;
constexpr double never = std::numeric_limits<double>::infinity();
constexpr double fault_at_s = 100;  // the link has been up for long enough to know the clock
constexpr double ping_every_s = 2;
constexpr double look_every_s = 0.005;  // of the agent, for dead children
constexpr double silence_limit_s = 10;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  double between(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  bool chance(double share) { return between(0, 1) < share; }
  double exponential(double mean) {
    return std::exponential_distribution<double>(1 / mean)(random_);
  }
  double around(double median, double spread) {
    return std::lognormal_distribution<double>(std::log(median), spread)(random_);
  }
  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

 private:
  std::mt19937_64 random_;
};

// Seconds of true time from here on, unless a name says otherwise.
struct World {
  struct Machine {
    double wall_ahead_s = 0;  // by up to 5 s: what torchrun orders by
    double started_at_s = 0;  // its monotonic clock counts from its boot
    double rate = 1;
    double way_s = 0;         // of a message, at least; the two ways differ
    double way_back_s = 0;
    std::int64_t clock_us(double at) const {
      return static_cast<std::int64_t>(std::floor((at - started_at_s) * rate * 1e6));
    }
  };

  explicit World(std::uint64_t seed) : dice(seed) {
    per_node = dice.chance(0.5) ? 1 : 4;
    controller = machine();
    for (int i = 0; i < ranks / per_node; ++i) nodes.push_back(machine());
  }
  Machine machine() {
    return {dice.between(-5, 5),          -dice.between(0, 1e7), 1 + dice.between(-50e-6, 50e-6),
            dice.between(50e-6, 500e-6), dice.between(50e-6, 500e-6)};
  }
  double delay(double least) {
    return least + dice.exponential(200e-6) + (dice.chance(0.02) ? dice.between(0, 0.02) : 0);
  }
  std::size_t node_of(int rank) const { return static_cast<std::size_t>(rank / per_node); }

  Dice dice;
  int per_node = 1;
  Machine controller;
  std::vector<Machine> nodes;
};

struct End {
  int rank = 0;
  double at = never;
  RankExited exit;
};

// ---- what happens -----------------------------------------------------------------------------

struct Happening {
  int rank = 0;                 // of the fault
  bool takes_node = false;      // the whole node goes, unseen
  std::optional<End> end;       // of that rank, when it ends and is seen
  double peers_notice_at = never;
  bool by_watchdog = false;     // all at the same timeout
};

RankExited ended(int code, int signal, std::vector<std::string> lines = {}) {
  RankExited exit;
  exit.status = {code, signal};
  exit.last_lines = std::move(lines);
  return exit;
}

RankExited own_end(Fault fault) {
  switch (fault) {
    case Fault::segmentation_fault:
      return ended(0, SIGSEGV);
    case Fault::kernel_out_of_memory: {
      RankExited exit = ended(0, SIGKILL);
      exit.evidence.oom = "the kernel's log: Out of memory: Killed process 4711 (python3)";
      return exit;
    }
    case Fault::killed_from_outside:
      return ended(0, SIGKILL);
    case Fault::failed_assertion:
      return ended(0, SIGABRT, {"train: step.cpp:81: void step(): Assertion `n > 0' failed."});
    case Fault::exception:
      return ended(1, 0, {"Traceback (most recent call last):", "KeyError: 'tokens'"});
    case Fault::gpu_out_of_memory:
      return ended(1, 0, {"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate"});
    case Fault::exit_without_a_word:
      return ended(1, 0);
    case Fault::bus_error:
      return ended(0, SIGBUS);
    case Fault::terminated_from_outside:
      return ended(0, SIGTERM);
    case Fault::node_without_power:
    case Fault::agent_killed:
    case Fault::hang:
      break;
  }
  return ended(0, 0);
}

// A process that dies of a signal closes its connections as it dies; an interpreter that unwinds an
// exception closes them some time before it exits.
Happening happen(Fault fault, World& world) {
  Happening what;
  what.rank = world.dice.below(ranks);
  what.takes_node = fault == Fault::node_without_power || fault == Fault::agent_killed;
  what.by_watchdog = fault == Fault::hang || fault == Fault::node_without_power;
  const double at = fault_at_s + world.dice.between(0, 2);
  what.peers_notice_at = at;
  if (what.takes_node || fault == Fault::hang) return what;
  what.end = End{what.rank, at, own_end(fault)};
  const bool unwinds = fault == Fault::exception || fault == Fault::gpu_out_of_memory;
  if (unwinds) what.end->at = at + world.dice.exponential(0.3);
  if (unwinds) what.peers_notice_at = world.dice.between(at, what.end->at);
  return what;
}

// Some ranks have told of an error that they mended.
void add_old_words(World& world, RankExited& exit) {
  if (!world.dice.chance(0.03)) return;
  const bool is_traceback = world.dice.chance(0.5);
  std::vector<std::string> lines{is_traceback ? "ValueError: bad shape"
                                              : "WARNING skipped sample 7: ValueError: bad shape"};
  const int steps = is_traceback ? 6 + world.dice.below(10) : world.dice.below(16);
  for (int step = 0; step < steps; ++step) lines.push_back("step " + std::to_string(step));
  exit.last_lines.insert(exit.last_lines.begin(), lines.begin(), lines.end());
}

// Most ranks say that a peer has gone. Some end so that nobody can tell, or crash meanwhile.
RankExited left_by_peer(World& world) {
  const double kind = world.dice.between(0, 1);
  const std::string words = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by "
                            "peer [10.0.0.3]:31234";
  if (kind < 0.05) return ended(1, 0);
  if (kind < 0.06) return ended(0, SIGSEGV, {words});
  if (kind < 0.11) return ended(0, SIGABRT, {words});
  if (kind < 0.15) return ended(0, SIGPIPE);
  return ended(1, 0, {"Traceback (most recent call last):", words});
}

RankExited timed_out() {
  return ended(0, SIGABRT,
               {"[rank5]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, "
                "OpType=ALLREDUCE, Timeout(ms)=5000) ran for 5012 milliseconds before timing out"});
}

std::vector<End> ends_of(const Happening& what, World& world) {
  std::vector<End> ends;
  if (what.end) ends.push_back(*what.end);
  for (int rank = 0; rank < ranks; ++rank) {
    const bool is_hit = rank == what.rank ||
                        (what.takes_node && world.node_of(rank) == world.node_of(what.rank));
    if (is_hit) continue;
    const double later = what.by_watchdog ? 5 + world.dice.around(0.05, 1)
                                          : 300e-6 + world.dice.around(0.04, 1);
    ends.push_back({rank, what.peers_notice_at + later,
                    what.by_watchdog ? timed_out() : left_by_peer(world)});
    add_old_words(world, ends.back().exit);
  }
  return ends;
}

// ---- what muster sees of it -------------------------------------------------------------------

ClockOffset clock_of(World& world, const World::Machine& node, double until) {
  ClockOffset clock;
  for (double sent = fault_at_s - 70 + world.dice.between(0, ping_every_s); sent < until;
       sent += ping_every_s) {
    const double received = sent + world.delay(node.way_s);
    const double answered = received + world.dice.exponential(50e-6);
    const double heard = answered + world.delay(node.way_back_s);
    if (heard > until) break;
    clock.add({world.controller.clock_us(sent), node.clock_us(received), node.clock_us(answered)},
              world.controller.clock_us(heard));
  }
  return clock;
}

struct Seen {
  double reaped_at = 0;
  double reported_at = 0;
  ClockInterval when;
};

// The agent is at times held up for long, also for longer than it ever was: a node that is out of
// memory. Nothing is looked at meanwhile.
Seen see(World& world, const End& end) {
  const World::Machine& node = world.nodes[world.node_of(end.rank)];
  const double look = end.at - world.dice.between(0, look_every_s);
  const double held_up = world.dice.chance(0.05) ? world.dice.between(0, 0.3) : 0;
  const double earliest = held_up > 0 ? look - world.dice.between(0, held_up) : look;
  Seen seen;
  seen.reaped_at = end.at + world.dice.exponential(100e-6) + held_up;
  seen.reported_at = seen.reaped_at + world.delay(node.way_back_s);
  const ClockOffset clock = clock_of(world, node, seen.reported_at);
  const auto span = clock.to_controller({node.clock_us(earliest), node.clock_us(seen.reaped_at)});
  check(span.has_value(), "a clock that is not known");
  seen.when = {span->least, span->most, "boot"};
  return seen;
}

ClockInterval silence_of(World& world, const Happening& what) {
  const World::Machine& node = world.nodes[world.node_of(what.rank)];
  const double gone = what.peers_notice_at;
  const ClockOffset clock = clock_of(world, node, gone);
  const bool is_cut = what.by_watchdog;  // no power: nobody closes the connection
  const double noticed = gone + (is_cut ? silence_limit_s : world.delay(node.way_back_s));
  return {*clock.last_answer_us(), world.controller.clock_us(noticed), "boot"};
}

Attempt empty_attempt(const World& world) {
  Attempt attempt;
  for (std::size_t i = 0; i < world.nodes.size(); ++i) {
    attempt.nodes.emplace_back();
    attempt.nodes.back().id = NodeId{"h" + std::to_string(i)};
  }
  for (int rank = 0; rank < ranks; ++rank) {
    attempt.ranks.push_back({RankId{rank}, static_cast<int>(world.node_of(rank)),
                             rank % world.per_node, RankRunning{}});
  }
  return attempt;
}

void lose_node(World& world, const Happening& what, Attempt& attempt) {
  AttemptNode& node = attempt.nodes[world.node_of(what.rank)];
  node.agent.emplace().lost = LinkLoss{{}, silence_of(world, what)};
  node.fenced = FenceProof::lease_expired;
}

// Whoever unwinds an exception has said it already; the others say nothing when they are stopped.
void stop(World& world, const Happening& what, RankExited& exit) {
  exit.status = {0, SIGTERM};
  if (exit.rank == RankId{what.rank}) return;
  exit.last_lines.clear();
  add_old_words(world, exit);
}

// The first report that arrives stops the others, each when it hears of it.
Attempt seen_attempt(World& world, const Happening& what, std::vector<End>& ends) {
  Attempt attempt = empty_attempt(world);
  if (what.takes_node) lose_node(world, what, attempt);
  std::vector<Seen> seen;
  double first_report = never;
  for (const End& end : ends) {
    seen.push_back(see(world, end));
    first_report = std::min(first_report, seen.back().reported_at);
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::size_t index = world.node_of(ends[i].rank);
    const double stopped_at = first_report + world.delay(world.nodes[index].way_s);
    RankExited exit = ends[i].exit;
    exit.rank = RankId{ends[i].rank};
    exit.node = attempt.nodes[index].id;
    exit.when = seen[i].when;
    exit.asked_to_stop = ends[i].at > stopped_at;
    if (exit.asked_to_stop) stop(world, what, exit);
    ends[i].exit = exit;
    attempt.ranks[static_cast<std::size_t>(ends[i].rank)].state = RankDone{exit};
  }
  return attempt;
}

// ---- who is named -----------------------------------------------------------------------------

Verdict verdict_of_muster(const World& world, const Happening& what, const Attempt& attempt) {
  const Attribution found = attribute(failures_of(attempt, false));
  Verdict verdict;
  verdict.names = found.is_named;
  verdict.sentence = attribution_sentence(found);
  if (!found.is_named) {
    verdict.right = !what.end && !what.takes_node;
    return verdict;
  }
  const Failure& first = found.first.front();
  const NodeId& node = attempt.nodes[world.node_of(what.rank)].id;
  if (what.takes_node) verdict.right = !first.rank && first.node == node;
  else verdict.right = what.end && first.rank == RankId{what.rank};
  return verdict;
}

// min() over (int) timestamps, the lowest rank first.
Verdict verdict_of_torchrun(const World& world, const Happening& what,
                            const std::vector<End>& ends) {
  Verdict verdict;
  std::optional<int> named;
  double earliest = never;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const End& end : ends) {
      if (end.rank != rank || end.exit.asked_to_stop) continue;
      const double second = std::floor(end.at + world.nodes[world.node_of(rank)].wall_ahead_s);
      if (second >= earliest) continue;
      earliest = second;
      named = rank;
    }
  }
  verdict.names = named.has_value();
  verdict.right = what.end ? named == what.rank : !named;
  return verdict;
}

}  // namespace

const char* fault_name(Fault fault) {
  constexpr const char* names[]{
      "segmentation_fault", "kernel_out_of_memory", "killed_from_outside",
      "failed_assertion",   "exception",            "gpu_out_of_memory",
      "exit_without_a_word", "bus_error",           "terminated_from_outside",
      "node_without_power", "agent_killed",         "hang"};
  return names[static_cast<int>(fault)];
}

Trial try_fault(Fault fault, std::uint64_t seed) {
  World world(seed * fault_count + static_cast<std::uint64_t>(fault));
  const Happening what = happen(fault, world);
  std::vector<End> ends = ends_of(what, world);
  const Attempt attempt = seen_attempt(world, what, ends);
  return {verdict_of_muster(world, what, attempt), verdict_of_torchrun(world, what, ends)};
}

}  // namespace muster::test
