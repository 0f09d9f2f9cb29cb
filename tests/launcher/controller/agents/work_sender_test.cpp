#include "launcher/controller/agents/work_sender.h"

#include "launcher/staging/blob_store.h"
#include "scheduler/apply/apply.h"
#include "scheduler/state/lookup.h"
#include "tests/launcher/controller/agents.h"
#include "tests/launcher/controller/hand_timers.h"

namespace muster {
namespace {

struct Sending : Observer {
  Scratch scratch;
  Home home{scratch.path()};
  HandTimers timers;
  FakeTransport transport;
  State state;
  std::vector<StagingSeen> moves;
  std::vector<std::string> failed;
  AgentPool pool{timers, transport, AgentLaunch{}};
  RankLogs logs{home};
  std::vector<std::vector<std::string>> commands;
  std::function<void(const CommandEnded&)> ended;
  int killed = 0;
  WorkSender sender{timers,
                    home,
                    state,
                    pool,
                    logs,
                    *this,
                    "",
                    [this](const auto& argv, Milliseconds, auto done) {
                      commands.push_back(argv);
                      ended = std::move(done);
                      return [this] { ++killed; };
                    },
                    "muster"};

  void observe(Observation what) override {
    if (const auto* seen = std::get_if<StagingSeen>(&what)) return moves.push_back(*seen);
    const auto& staged = std::get<NodeStaged>(what);
    if (commands.empty()) CHECK(staged.lasting);
    failed.push_back(staged.node.value + ": " + staged.error);
  }
  void perform() {
    sender.perform([](const NodeWork&) { return false; });
  }
  void run(const std::string& job, const NodeAddress& at) {
    JobSubmitted submitted = a_job(job, at.host);
    submitted.target.nodes = {at};
    apply(state, {from_ms(1), Observation{submitted}});
    apply(state, {from_ms(1), Decision{AttemptPlaced{{job}, {0}, {at.id}, ""}}});
  }
  std::shared_ptr<FakeWire> connect() {
    pool.want(muster::address_of("n1", "a"), target_with(Milliseconds{60'000}), "");
    const auto wire = transport.answer(transport.asked.size() - 1);
    wire->say(Welcome{});
    return wire;
  }
  std::string put(const std::string& content) {
    const auto store = BlobStore::open(home.blobs());
    REQUIRE(store);
    const auto blob = store->put_bytes(content);
    REQUIRE(blob);
    return blob->hash;
  }
  // The node's agent says now and then that it lives.
  void pass(const std::shared_ptr<FakeWire>& wire, Milliseconds duration) {
    for (; duration > Seconds{5}; duration -= Seconds{5}) {
      timers.pass(Seconds{5});
      wire->say(Pong{});
    }
    timers.pass(duration);
  }
};

TEST_CASE("a job that is resumed says anew how its node is reached, though that was never let go") {
  Sending one;
  one.run("j", address_of("n1", "old"));
  one.run("k", address_of("n2", "k's"));
  one.perform();
  REQUIRE(one.transport.asked.size() == 2);
  one.transport.asked[1].done(LinkFailure{LinkFailureKind::unreachable, "no route"});

  one.sender.job_over({"j"});
  one.state.jobs.at({"j"}).target.nodes = {address_of("n1", "new")};
  one.perform();
  REQUIRE(one.transport.asked.size() == 3);
  CHECK(one.transport.asked[2].address.host == "new");

  // Of another job nothing is forgotten: its node waits for its next try.
  one.perform();
  CHECK(one.transport.asked.size() == 3);
  one.timers.pass(Milliseconds{50});
  REQUIRE(one.transport.asked.size() == 4);
  CHECK(one.transport.asked[3].address.host == "k's");
}

TEST_CASE("a node that an elastic job may grow to is reached, though nobody has it yet") {
  Sending one;
  one.run("j", address_of("n1", "a"));
  Job& job = one.state.jobs.at({"j"});
  job.spec.distribution.type = DistributionType::pytorch;
  job.spec.muster.nodes_min = 1;
  job.spec.muster.nodes_max = 2;
  job.spec.muster.elastic.mode = ElasticMode::restart;
  job.target.nodes.push_back(address_of("n2", "b"));
  active_attempt(job)->phase = Running{from_ms(2)};
  Node& other = one.state.nodes[NodeId{"n2"}];
  other.id = NodeId{"n2"};
  other.drained = true;
  one.perform();
  CHECK(one.transport.asked.size() == 1);
  other.drained = false;
  one.perform();
  REQUIRE(one.transport.asked.size() == 2);
  CHECK(one.transport.asked[1].address.host == "b");
}

TEST_CASE("files that go to a node are told of once a minute, in what has gone so far") {
  Sending one;
  const std::string content(9u << 20, 'x');
  const std::string hash = one.put(content);
  const auto wire = one.connect();
  wire->reads = false;
  one.sender.take({"n1"}, WantBlobs{{"j"}, {2}, {hash}}, "");
  const auto sent = [&] { return static_cast<std::int64_t>(wire->take<BlobData>().size()); };
  const std::int64_t window = sent();
  CHECK(window > 0);
  one.pass(wire, Milliseconds{59'996});
  CHECK(sent() == 0);  // while the link takes no more
  wire->queued_bytes = 0;
  one.timers.pass(Milliseconds{3});
  CHECK(sent() == window);
  CHECK(one.moves.empty());
  wire->queued_bytes = 0;
  one.timers.pass(Milliseconds{1});
  REQUIRE(one.moves.size() == 1);
  CHECK(one.moves[0].job == JobId{"j"});
  CHECK(one.moves[0].attempt == AttemptId{2});
  CHECK(one.moves[0].node == NodeId{"n1"});
  CHECK(one.moves[0].bytes > std::int64_t{8} << 20);
  one.pass(wire, Seconds{120});
  CHECK(one.moves.size() == 1);  // all of it has gone
  CHECK(one.failed.empty());
}

TEST_CASE("an image whose registry a node cannot reach is fetched here, where the job says so") {
  Sending one;
  one.run("j", address_of("n1", "a"));
  JobSpec& spec = find_job(one.state, {"j"})->spec;
  spec.environment.image = spec.environment.pull_name = "r.lab/a:1";
  StageDone done{{"j"}, {0}, "connection refused"};
  done.no_registry = true;
  CHECK_FALSE(one.sender.take({"n1"}, done, ""));  // pull: nodes
  spec.recorded["containers.pull"] = "auto";
  CHECK_FALSE(one.sender.take({"n2"}, done, ""));  // no node of the job
  REQUIRE(one.sender.take({"n1"}, done, ""));
  REQUIRE(one.sender.take({"n1"}, done, ""));
  REQUIRE(one.commands.size() == 1);
  CHECK(one.commands[0][2] == "fetch-image");
  CHECK(one.commands[0][5] == "r.lab/a:1");
  REQUIRE(one.moves.size() == 1);
  one.timers.pass(Milliseconds{60'000});
  CHECK(one.moves.size() == 2);
  one.ended({{1, 0}, "", {"no space"}});
  REQUIRE(one.failed.size() == 1);
  CHECK_THAT(one.failed[0],
             ContainsSubstring("connection refused") && ContainsSubstring("no space"));
  REQUIRE(one.sender.take({"n1"}, done, ""));
  one.ended({});
  CHECK(one.failed.size() == 1);
  REQUIRE(one.sender.take({"n1"}, done, ""));
  CHECK(one.commands.size() == 3);
  one.sender.job_over({"j"});
  CHECK(one.killed == 1);
}

TEST_CASE("what a job was submitted with and is gone is said to be so") {
  Sending one;
  const auto wire = one.connect();
  one.sender.take({"n1"}, WantBlobs{{"j"}, {0}, {std::string(64, 'a')}}, "");
  REQUIRE(one.failed.size() == 1);
  CHECK_THAT(one.failed[0],
             ContainsSubstring("n1: ") && ContainsSubstring("so submit it again"));
  CHECK(wire->take<BlobData>().empty());
}

}  // namespace
}  // namespace muster
