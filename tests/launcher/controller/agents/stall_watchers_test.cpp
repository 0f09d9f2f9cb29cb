#include "launcher/controller/agents/stall_watchers.h"

#include "tests/catch.h"
#include "tests/launcher/controller/hand_timers.h"

using namespace muster;

namespace {

const JobId stalling_job{"train"};
const NodeId h1{"h1"}, h2{"h2"};

// Two nodes with two ranks each, which step once a second.
struct Cluster : Observer {
  HandTimers timers;
  State state;
  std::vector<StallSeen> told;
  std::vector<std::pair<NodeId, LookAtRanks>> asked;
  std::int64_t step = 0;
  StallWatchers stalls{timers, state, *this,
                       [this](const NodeId& node, const LookAtRanks& request) {
                         asked.emplace_back(node, request);
                       }};

  explicit Cluster(HangSettings settings = {}) {
    Attempt attempt;
    attempt.launched = true;
    attempt.phase = Running{timers.wall_now()};
    for (const NodeId& node : {h1, h2}) attempt.nodes.emplace_back().id = node;
    for (int i = 0; i < 4; ++i) attempt.ranks.push_back({RankId{i}, i / 2, i % 2, RankWaiting{}});
    Job& known = state.jobs[stalling_job];
    known.id = stalling_job;
    known.spec.muster.hang = settings;
    known.phase = Active{std::move(attempt)};
    stalls.node_up(h1, {});
    stalls.node_up(h2, {});
    stalls.follow();
  }
  void observe(Observation what) override { told.push_back(std::get<StallSeen>(what)); }
  bool say(const NodeId& node, const FromAgent& message) { return stalls.take(node, message, ""); }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      timers.pass(Seconds{1});
      ++step;
      for (int rank = 0; rank < 4; ++rank) {
        say(rank < 2 ? h1 : h2, Progress{stalling_job, {}, RankId{rank}, step, {}, {}});
      }
    }
  }
  void make_members(std::int64_t epoch, const std::vector<RankId>& ranks) {
    std::get<Active>(state.jobs[stalling_job].phase).attempt.members = {epoch, ranks};
  }
  void stop(int rank, const NodeId& from) {
    say(from,
        RankActivity{stalling_job, {}, {{RankId{rank}, Doing::stopped, 500, "7 (python)"}}, {}});
  }
};

}  // namespace

TEST_CASE("a stopped rank is told of, looked at on its node, and told of with what was seen") {
  Cluster cluster;
  cluster.run(20);
  CHECK(cluster.told.empty());
  cluster.stop(2, h2);
  cluster.timers.pass(Seconds{3});
  REQUIRE(cluster.told.size() == 1);
  CHECK(cluster.told.back().stall == StallKind::suspect);
  CHECK(cluster.told.back().rank == RankId{2});
  CHECK(cluster.told.back().blamed == h2);
  REQUIRE(cluster.asked.size() == 2);
  CHECK(cluster.asked.back().first == h2);
  CHECK(cluster.asked.back().second.ranks.front() == RankId{2});
  cluster.say(h2, RanksLookedAt{stalling_job, {}, {{RankId{2}, {"waits in do_signal_stop"}}}});
  cluster.timers.pass(Seconds{1});
  REQUIRE(cluster.told.size() == 2);
  CHECK(cluster.told.back().evidence.size() == 1);
  cluster.timers.pass(Seconds{20});
  REQUIRE(cluster.told.size() == 3);
  CHECK(cluster.told.back().stall == StallKind::hung);
  CHECK(cluster.asked.size() == 2);
}

TEST_CASE("a node speaks of its own ranks only") {
  Cluster cluster;
  cluster.run(20);
  cluster.stop(2, h1);
  cluster.stop(99, h1);
  cluster.run(5);
  CHECK(cluster.told.empty());
}

TEST_CASE("what is said of a job or an attempt that is not, or has no ranks yet, is nobody's") {
  Cluster cluster;
  cluster.run(20);
  for (const auto& [about, attempt] :
       {std::pair{JobId{"unknown"}, 0}, std::pair{stalling_job, 7}}) {
    cluster.say(h2, RankActivity{about, {attempt}, {{RankId{2}, Doing::stopped, 500, "7"}}, true});
    cluster.say(h2, Progress{about, {attempt}, RankId{2}, 99, {}, {}});
  }
  std::get<Active>(cluster.state.jobs[stalling_job].phase).attempt.launched = false;
  cluster.stalls.attempt_over(stalling_job);
  cluster.stop(2, h2);
  cluster.timers.pass(Seconds{60});
  CHECK(cluster.told.empty());
}

TEST_CASE("what ranks do is for the watch alone, of what else they say others hear as well") {
  Cluster cluster;
  CHECK(cluster.say(h1, RankActivity{stalling_job, {}, {}, {}}));
  CHECK(cluster.say(h1, RanksLookedAt{stalling_job, {}, {}}));
  CHECK_FALSE(cluster.say(h1, Progress{stalling_job, {}, RankId{0}, 1, {}, {}}));
  CHECK_FALSE(cluster.say(h1, RankOutput{stalling_job, {}, RankId{0}, 0}));
  RankEnded ended;
  ended.job = stalling_job;
  CHECK_FALSE(cluster.say(h1, ended));
  CHECK_FALSE(cluster.say(h1, Welcome{}));
}

TEST_CASE("where output is what is waited for, that of the ranks themselves counts") {
  HangSettings by_output;
  by_output.watch = HangWatch::output;
  by_output.timeout = by_output.first_step = Seconds{30};
  const auto told_while_printing = [&by_output](const NodeId& node) {
    Cluster cluster(by_output);
    cluster.run(20);
    for (int i = 0; i < 120; ++i) {
      cluster.timers.pass(Seconds{1});
      cluster.say(node, RankOutput{stalling_job, {}, RankId{2}, 0});
    }
    return cluster.told.size();
  };
  CHECK(told_while_printing(h2) == 0);
  CHECK(told_while_printing(h1) > 0);  // not its rank
}

TEST_CASE("a rank that has ended holds up nobody") {
  Cluster cluster;
  cluster.run(20);
  RankEnded ended;
  ended.job = stalling_job;
  ended.rank = RankId{2};
  cluster.say(h2, ended);
  cluster.stop(2, h2);
  cluster.timers.pass(Seconds{3});
  for (const StallSeen& seen : cluster.told) CHECK(seen.rank != RankId{2});
}

TEST_CASE("of ranks that wait to be members nothing is expected, nor that their node is heard") {
  Cluster cluster;
  cluster.make_members(1, {RankId{0}, RankId{1}});
  for (int i = 0; i < 20; ++i) {
    cluster.timers.pass(Seconds{1});
    ++cluster.step;
    for (const int rank : {0, 1}) {
      cluster.say(h1, Progress{stalling_job, {}, RankId{rank}, cluster.step, {}, {}});
    }
    cluster.say(h2, Progress{stalling_job, {}, RankId{2}, 0, {}, {}});
  }
  cluster.stop(2, h2);
  cluster.timers.pass(Seconds{4});
  cluster.stalls.node_down(h2, {});
  CHECK(cluster.told.empty());
  cluster.stop(1, h1);
  cluster.timers.pass(Seconds{6});
  REQUIRE_FALSE(cluster.told.empty());
  CHECK(cluster.told.back().rank == RankId{1});
}

TEST_CASE("with other members the watch begins anew") {
  Cluster cluster;
  cluster.make_members(1, {RankId{0}, RankId{1}, RankId{2}, RankId{3}});
  cluster.run(20);
  cluster.stop(2, h2);
  cluster.timers.pass(Milliseconds{500});
  cluster.make_members(2, {RankId{0}, RankId{1}});
  cluster.timers.pass(Seconds{30});
  CHECK(cluster.told.empty());
  cluster.make_members(3, {RankId{0}, RankId{1}, RankId{2}, RankId{3}});
  cluster.run(20);
  cluster.stop(3, h2);
  cluster.timers.pass(Seconds{6});
  REQUIRE_FALSE(cluster.told.empty());
  CHECK(cluster.told.back().rank == RankId{3});
}

TEST_CASE("while a node is not heard nobody is named") {
  Cluster cluster;
  cluster.run(20);
  cluster.stalls.node_down(h2, {});
  cluster.timers.pass(Seconds{3600});
  CHECK(cluster.told.empty());
  cluster.stalls.node_up(h2, {});
  cluster.timers.pass(Seconds{4});
  CHECK(cluster.told.empty());
  cluster.timers.pass(Seconds{5});
  CHECK(!cluster.told.empty());
}

TEST_CASE("nothing is looked at while nothing runs, and never with muster.hang.timeout: off") {
  HangSettings off;
  off.off = true;
  CHECK(Cluster(off).timers.is_idle());
  Cluster cluster;
  CHECK(!cluster.timers.is_idle());
  cluster.state.jobs.clear();
  cluster.stalls.attempt_over(stalling_job);
  cluster.stalls.follow();
  CHECK(cluster.timers.is_idle());
}

TEST_CASE("the next attempt is watched anew") {
  Cluster cluster;
  cluster.run(20);
  cluster.stop(2, h2);
  cluster.timers.pass(Seconds{30});
  CHECK(cluster.told.back().stall == StallKind::hung);
  cluster.stalls.attempt_over(stalling_job);
  std::get<Active>(cluster.state.jobs[stalling_job].phase).attempt.id = AttemptId{1};
  cluster.told.clear();
  cluster.timers.pass(Seconds{600});
  CHECK(cluster.told.empty());
}
