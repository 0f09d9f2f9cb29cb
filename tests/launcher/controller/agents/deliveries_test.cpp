// Outputs go to stores as long as State says so, in one process for an attempt.
#include "launcher/controller/agents/deliveries.h"

#include "scheduler/state/lookup.h"
#include "tests/catch.h"
#include "tests/launcher/controller/agents.h"

using namespace muster;

namespace {

struct DeliveryWorld : Observed {
  State state;
  std::vector<std::vector<std::string>> begun;
  std::function<void(const CommandEnded&)> end;
  int killed = 0;
  OutputDeliveries deliveries{Home{"/home"}, "/bin/muster", state,
                              [this](const auto& argv, Milliseconds, auto done) {
                                begun.push_back(argv);
                                end = done;
                                return [this] { ++killed; };
                              },
                              *this};

  DeliveryWorld() {
    Attempt attempt;
    attempt.id = AttemptId{2};
    attempt.nodes.resize(2);
    attempt.nodes[1].staged = NodeStaged{{"train"}, {2}, {"n2"}, "", false, {"images"}};
    StopBegun why{{"train"}, {2}, StopReason::finished, "every rank ended with 0"};
    attempt.phase = Collecting{why, {}, true, {}};
    state.jobs[JobId{"train"}].phase = Active{std::move(attempt)};
  }
  Collecting& phase() {
    Job& job = state.jobs.at(JobId{"train"});
    return std::get<Collecting>(active_attempt(job)->phase);
  }
  OutputsDelivered told() const { return std::get<OutputsDelivered>(observed.back()); }
};

}  // namespace

TEST_CASE("outputs are delivered once, and told how it ended") {
  DeliveryWorld world;
  world.deliveries.follow();
  world.deliveries.follow();
  REQUIRE(world.begun.size() == 1);
  CHECK(world.begun[0] == std::vector<std::string>{"/bin/muster", "agent", "upload", "/home",
                                                   "train", "finished", "images"});
  world.end({{0, 0}, "", {}});
  CHECK(world.told().attempt == AttemptId{2});
  CHECK(world.told().error.empty());
  world.end({{1, 0}, "", {"a", "b"}});
  CHECK(world.told().error == "a; b");
  world.end({{0, 9}, "", {}});
  CHECK(world.told().error == "the process that copies its outputs was killed");
  world.phase().error = "";
  world.deliveries.follow();
  CHECK(world.begun.size() == 1);
}

TEST_CASE("what is delivered for an attempt that is over is ended") {
  DeliveryWorld world;
  world.deliveries.follow();
  CHECK(world.killed == 0);
  world.state.jobs.clear();
  world.deliveries.follow();
  CHECK(world.killed == 1);
  world.deliveries.follow();
  CHECK(world.killed == 1);
}

TEST_CASE("outputs of an attempt that goes on are registered nowhere") {
  DeliveryWorld world;
  world.phase().why->reason = StopReason::rank_failed;
  world.deliveries.follow();
  REQUIRE(world.begun.size() == 1);
  CHECK(world.begun[0].back() == "goes-on");
}
