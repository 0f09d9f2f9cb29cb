// Records in any order, sensible or not. Whatever an agent or a journal says, State stays whole and
// decide comes to rest; and once agents do their work again, every job ends.
#include <cstdlib>

#include "tests/catch.h"
#include "tests/scheduler/bench.h"
#include "tests/scheduler/sim/fake_node.h"
#include "tests/sim/model/dump.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr int hosts = 4;
constexpr int jobs = 3;
constexpr int decisions_most = 1000;

// Draws values that are often right and sometimes absurd.
class Draw {
 public:
  Draw(Dice& dice, const State& state) : dice_(dice), state_(state) {}

  JobId job() { return JobId{"job" + std::to_string(dice_.upto(jobs + 1))}; }
  NodeId node() { return NodeId{node_name(1 + dice_.upto(hosts + 1))}; }
  AttemptId attempt(const JobId& id) {
    const Job* job = find_job(state_, id);
    const std::int64_t now = job ? job->next_attempt - 1 : 0;
    return AttemptId{dice_.chance(80) ? now : now + dice_.upto(4) - 2};
  }
  std::string error() { return dice_.chance(20) ? "disk full" : ""; }
  std::vector<NodeId> nodes() {
    std::vector<NodeId> some;
    for (int count = dice_.upto(4); count > 0; --count) some.push_back(node());
    return some;
  }
  std::optional<CheckpointRef> checkpoint() {
    if (dice_.chance(60)) return std::nullopt;
    return sealed(dice_.upto(50), 1 + dice_.upto(4));
  }
  std::optional<Milliseconds> duration() {
    if (dice_.chance(50)) return std::nullopt;
    return dice_.time(0, 60'000);
  }

  LinkUp link_up() {
    LinkUp up{node(), "boot", "agent" + std::to_string(dice_.upto(3)), "h", "a"};
    up.gpus = dice_.upto(3);
    return up;
  }
  std::vector<int> processes() {
    std::vector<int> some;
    for (int count = dice_.upto(4); count > 0; --count) some.push_back(dice_.upto(3));
    return some;
  }

  Observation observation() {
    const JobId id = job();
    const AttemptId number = attempt(id);
    switch (dice_.upto(17)) {
      case 0:
        return link_up();
      case 1:
        return LinkDown{node(), {link_failure(), "no"}};
      case 2:
        return NodeDrainSet{node(), dice_.chance(50), "fan", duration()};
      case 3:
        return CancelRequested{dice_.chance(90) ? JobId{"nobody"} : id, duration()};
      case 4:
        return StagingSeen{id, number, node(), dice_.upto(100)};
      case 5:
        return NodeChecked{id, number, node(), checks(), checkpoint(), checkpoint()};
      case 6:
        return NodeStaged{id, number, node(), error()};
      case 7:
        return PortsReserved{id, number, node(), {20000, 20001}, error()};
      case 8:
        return NodeStarted{id, number, node(), error()};
      case 9:
        return RankExited{id, number, node(), rank(), exit(), dice_.chance(20), 0, {}};
      case 10:
        return ProgressSeen{id, number, dice_.upto(100), checkpoint()};
      case 11:
        return NodeClean{id, number, node(), checkpoint(), stuck(), checkpoint()};
      case 12:
        return OutputsCollected{id, number, node(), error()};
      case 13:
        return CollectionSeen{id, number, node(), dice_.upto(100)};
      case 14:
        return NodeReady{id, number, node()};
      case 15:
        return MembersTold{id, number, node(), dice_.upto(5), error()};
      default:
        return LinkUp{node(), "boot", "agent0", "h", "a"};
    }
  }

  Decision decision() {
    const JobId id = job();
    const AttemptId number = attempt(id);
    switch (dice_.upto(17)) {
      case 0:
        return JobPending{id, "why"};
      case 1:
        return AttemptPlaced{id, AttemptId{number.value + 1}, nodes(), ""};
      case 2:
        return NodeReplaced{id, number, node(), node(), "", {}};
      case 3:
        return PlacementAbandoned{id, number, "", from_ms(0)};
      case 4:
        return StagingBegun{id, number};
      case 5:
        return PortsAsked{id, number};
      case 6:
        return LaunchBegun{id, number, checkpoint(), "", false, processes()};
      case 7:
        return StopBegun{id, number, static_cast<StopReason>(dice_.upto(7)), "", Seconds{1}};
      case 8: {
        const bool proven = dice_.chance(50);
        return NodeFenced{id, number, node(),
                          proven ? FenceProof::lease_expired : FenceProof::none};
      }
      case 9: {
        CollectionBegun begun{id, number};
        if (dice_.chance(50)) begun.again_from = node();
        return begun;
      }
      case 10:
        return AttemptEnded{id, number, {}, checkpoint()};
      case 11:
        return NodeAdded{id, number, node(), ""};
      case 12:
        return JoinBegun{id, number, node(), dice_.upto(4) - 1};
      case 13:
        return MembersChanged{id, number, epoch(id), ranks(), ""};
      case 14:
        return NodeLeaving{id, number,    node(), static_cast<StopReason>(dice_.upto(7)),
                           "", Seconds{1}};
      case 15:
        return NodeReleased{id, number, node(), error()};
      default:
        return RetryScheduled{id, number, from_ms(0), dice_.chance(50), nodes(), ""};
    }
  }

 private:
  std::int64_t epoch(const JobId& id) {
    const Job* job = find_job(state_, id);
    const Attempt* attempt = job ? active_attempt(*job) : nullptr;
    return (attempt ? attempt->members.epoch : 0) + (dice_.chance(80) ? 1 : dice_.upto(4));
  }
  std::vector<RankId> ranks() {
    std::vector<RankId> some;
    for (int count = dice_.upto(5); count > 0; --count) some.push_back(rank());
    return some;
  }
  // Rarely one that ends a job at once.
  LinkFailureKind link_failure() {
    return dice_.chance(97) ? LinkFailureKind::lost : LinkFailureKind::refused_key;
  }
  RankId rank() { return RankId{dice_.upto(6) - 1}; }
  ExitStatus exit() { return dice_.chance(50) ? ExitStatus{} : ExitStatus{dice_.upto(256), 0}; }
  std::vector<CheckFailure> checks() {
    if (dice_.chance(80)) return {};
    return {{"host.disk", "full", dice_.chance(20)}};
  }
  std::vector<std::string> stuck() {
    if (dice_.chance(80)) return {};
    return {"python (pid 7)"};
  }

  Dice& dice_;
  const State& state_;
};

// The core and a clock; every record is checked, nothing is audited: the records may be nonsense.
class Core {
 public:
  explicit Core(std::uint64_t seed) : dice_(seed) {
    for (int i = 0; i < jobs; ++i) submit(i);
  }

  void disturb(int decisions_percent) {
    if (dice_.chance(30)) now_ += dice_.time(0, 40'000);
    if (dice_.chance(5)) submit(dice_.upto(jobs));
    if (dice_.chance(40)) return answer_one();
    Draw draw(dice_, state_);
    if (dice_.chance(decisions_percent)) {
      write({now_, draw.decision()});
      settle();
    } else {
      observe(draw.observation());
    }
  }

  // Everybody does his work; ranks succeed. True when every job has ended.
  bool calm_down() {
    for (int i = 1; i <= hosts; ++i) observe(NodeDrainSet{NodeId{node_name(i)}, false, "", {}});
    for (int round = 0; round < 2000 && !state_.jobs.empty(); ++round) {
      link_all();
      for (int i = 0; i < 50 && !pending_work(state_).empty(); ++i) answer_one();
      finish_ranks();
      now_ += Seconds{20};
      settle();
    }
    return state_.jobs.empty();
  }

 private:
  void submit(int number) {
    JobBuilder job = a_job("job" + std::to_string(number));
    job.on_nodes(1 + dice_.upto(hosts)).of_cluster(hosts).ranks_per_node(1 + dice_.upto(2));
    job.restarts(dice_.upto(3)).reschedules(dice_.upto(4)).nodes_wait(30 + dice_.upto(300));
    if (dice_.chance(50)) job.elastic(1 + dice_.upto(hosts), 1 + dice_.upto(hosts));
    if (dice_.chance(30))
      job.without_distribution();
    else if (dice_.chance(20))
      job.ranks_by_gpus();
    if (dice_.chance(20)) job.timeout(20 + dice_.upto(100));
    observe(JobSubmitted(job));
  }
  void write(const Record& record) {
    apply(state_, record);
    REQUIRE(violations(state_).empty());
  }
  void observe(const Observation& what) {
    write({now_, what});
    settle();
  }
  void settle() {
    int made = 0;
    for (auto all = decide(state_, now_); !all.empty(); all = decide(state_, now_)) {
      made += static_cast<int>(all.size());
      if (made >= decisions_most) FAIL("decides for ever: " << describe(all.front()));
      for (Decision& decision : all) write({now_, std::move(decision)});
    }
    const auto wake = next_wake(state_, now_);
    if (wake) REQUIRE(*wake > now_);
  }
  void answer_one() {
    const auto works = pending_work(state_);
    if (works.empty()) return;
    const auto pick = static_cast<std::size_t>(dice_.upto(static_cast<int>(works.size())));
    observe(answer_to(state_, works[pick], std::nullopt));
  }
  void link_all() {
    for (const NodeId& id : nodes_to_connect(state_)) {
      if (!linked_agent(state_, id)) observe(LinkUp{id, "boot", "agent0", "h", "a"});
    }
  }
  void finish_ranks() {
    std::vector<Observation> exits;
    for (const auto& [id, job] : state_.jobs) {
      const Attempt* attempt = active_attempt(job);
      if (!attempt || !phase_of<Running>(*attempt)) continue;
      for (const Rank& rank : attempt->ranks) {
        const NodeId& node = node_of(*attempt, rank).id;
        exits.push_back(RankExited{id, attempt->id, node, rank.id, {}, false, to_ms(now_), {}});
      }
    }
    for (const Observation& exit : exits) observe(exit);
  }

  Dice dice_;
  State state_;
  Time now_ = from_ms(1'000'000);
};

void run(std::uint64_t seed, int decisions_percent) {
  INFO("seed " << seed);
  Core core(seed);
  for (int i = 0; i < 300; ++i) core.disturb(decisions_percent);
  REQUIRE(core.calm_down());
}

std::uint64_t seeds() {
  const char* text = std::getenv("MUSTER_SIM_SEEDS");
  return text ? std::strtoull(text, nullptr, 10) : 150;
}

}  // namespace

TEST_CASE("whatever agents say, the core stays whole and every job ends when they work again") {
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) run(seed, 0);
}

TEST_CASE("whatever a journal holds, the core stays whole and every job ends") {
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) run(seed, 30);
}
