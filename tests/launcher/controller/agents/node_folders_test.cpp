// What nodes are told to remove of jobs that have ended.
#include "launcher/controller/agents/node_folders.h"

#include "tests/catch.h"
#include "tests/launcher/controller/agents.h"

namespace muster {
namespace {

constexpr Milliseconds minute{60'000};

struct FoldersWorld : Agents {
  std::set<JobId> live;
  NodeFolders folders{timers, *store, pool,
                      [this](const JobId& job) { return !live.contains(job); }};
  std::shared_ptr<FakeWire> wire = connect(address_of("n1", "n1"));

  void ended(const std::string& name, Milliseconds ago, JobEndState how) {
    JobRow row;
    row.name = name;
    row.state = "Ended";
    row.ended_at = timers.wall_now() - ago;
    const JobId job{name};
    REQUIRE(store->append(
        {{*row.ended_at, Decision{AttemptPlaced{job, AttemptId{0}, {NodeId{"n1"}}, ""}}},
         {*row.ended_at, Decision{JobEnded{job, how, 0, ""}}}},
        {row}));
  }
  // What the node is told when it names these in its greeting, in their order.
  std::vector<ForgetJob> reported_of(const std::vector<JobId>& named) {
    Welcome welcome;
    welcome.folders = named;
    folders.node_up(NodeId{"n1"}, welcome);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (std::chrono::steady_clock::now() < until) io.run_one_until(until);
    return wire->take<ForgetJob>();
  }
};

TEST_CASE("outputs stay on a node until they are on the disk here, what can be brought again not") {
  FoldersWorld world;
  world.ended("done", Milliseconds{0}, JobEndState::completed);
  world.folders.job_over(JobId{"done"});
  auto told = world.wire->take<ForgetJob>();
  REQUIRE(told.size() == 1);
  CHECK(told[0].job == JobId{"done"});
  CHECK_FALSE(told[0].outputs_too);

  world.ended("settled", 3 * minute, JobEndState::completed);
  told = world.reported_of({JobId{"done"}, JobId{"settled"}});
  REQUIRE(told.size() == 2);
  CHECK_FALSE(told[0].outputs_too);
  CHECK(told[1].outputs_too);
}

TEST_CASE("outputs that were copied before this machine was rebooted stay on their node") {
  FoldersWorld world;
  world.ended("before", minute * 60 * 24 * 3650, JobEndState::completed);
  const auto told = world.reported_of({JobId{"before"}});
  REQUIRE(told.size() == 1);
  CHECK_FALSE(told[0].outputs_too);
}

TEST_CASE("outputs of a job that may be resumed stay on their node until its records are gone") {
  FoldersWorld world;
  world.ended("bad", 3 * minute, JobEndState::failed);
  auto told = world.reported_of({JobId{"bad"}});
  REQUIRE(told.size() == 1);
  CHECK_FALSE(told[0].outputs_too);
  REQUIRE(*world.store->reduce({"bad"}, world.timers.wall_now(), "{}"));
  told = world.reported_of({JobId{"bad"}});
  REQUIRE(told.size() == 1);
  CHECK(told[0].outputs_too);
}

TEST_CASE("nothing is removed of jobs that are live, were resumed, or that nobody knows here") {
  FoldersWorld world;
  world.ended("live", 3 * minute, JobEndState::completed);
  world.live.insert(JobId{"live"});
  world.ended("unclean", 3 * minute, JobEndState::completed);
  JobRow row = **world.store->job({"unclean"});
  row.unclean = true;
  REQUIRE(world.store->append({}, {row}));
  world.ended("again", 3 * minute, JobEndState::completed);
  row = **world.store->job({"again"});
  row.ended_at.reset();
  REQUIRE(world.store->append({}, {row}));
  CHECK(world.reported_of({JobId{"live"}, JobId{"unclean"}, JobId{"again"}, JobId{"unknown"}})
            .empty());
}

}  // namespace
}  // namespace muster
