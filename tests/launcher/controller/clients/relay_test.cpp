// Commands that go from one node to another: mpirun's daemons, asked for on node 0, and none else.
#include "launcher/controller/clients/exec_relay.h"

#include "tests/launcher/controller/agents.h"
#include "tests/launcher/controller/paired_client.h"

namespace muster {
namespace {

// An MPI job on n1 and n2, beside a job on n3.
struct MpiJob {
  explicit MpiJob(DistributionType type = DistributionType::mpi, bool is_open = false) {
    JobSubmitted job = a_job("j", "a");
    job.spec.muster.remote_start = is_open;
    job.spec.distribution.type = type;
    agents.know(Observation{job});
    agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}, {"n2"}}, ""}});
    agents.know(Observation{a_job("k", "c")});
    agents.know(Decision{AttemptPlaced{{"k"}, {0}, {{"n3"}}, ""}});
    for (const char* node : {"n1", "n2", "n3"}) {
      wires.push_back(agents.connect(address_of(node, std::string("host-") + node)));
    }
  }
  // What n1, n2 and n3 are told.
  std::vector<RemoteStart> started(std::size_t node) { return wires[node]->take<RemoteStart>(); }
  std::string refused(std::size_t node) {
    const auto ended = wires[node]->take<RemoteStartEnded>();
    return ended.empty() ? "" : ended.front().error;
  }
  void ask(const char* from, const std::string& host, const std::string& command = "orted",
           AttemptId attempt = {}) {
    relay.remote_start({from}, {"7", {"j"}, attempt, host, command});
  }
  Agents agents;
  Relay relay{agents.state, agents.pool};
  std::vector<std::shared_ptr<FakeWire>> wires;
};

// A job with a rank on each of n1 and n2, of which n1 is connected, and a client.
struct ExecDesk {
  ExecDesk() {
    JobSubmitted job = a_job("j", "a");
    job.spec.distribution = {DistributionType::pytorch, 1, 0, 0};
    agents.know(Observation{job});
    agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}, {"n2"}}, ""}});
    agents.know(Observation{a_job("waits", "a")});
    wire = agents.connect(address_of("n1", "a"));
  }
  void ask(std::optional<RankId> rank, const std::string& job = "j") {
    relay.exec(client.session, {{job}, rank, {"ls", "-l"}});
  }
  // What the client is told in place of an answer; empty: nothing.
  std::string refused() {
    const auto all = client.take<Refused>();
    return all.empty() ? "" : all.front().message;
  }
  // The id of the one command that n1 is asked to begin.
  std::string begun() {
    const auto asked = wire->take<ExecStart>();
    REQUIRE(asked.size() == 1);
    return asked.front().id;
  }
  Agents agents;
  Relay relay{agents.state, agents.pool};
  PairedClient client{agents.io, [this](const auto& gone) { relay.client_gone(gone); }};
  std::shared_ptr<FakeWire> wire;
};

}  // namespace

TEST_CASE("mpirun's daemon is started on the node that node 0 names, and its end told to node 0") {
  MpiJob job;
  job.ask("n1", "n2", "orted -mca ess \"env\"");
  const auto started = job.started(1);
  REQUIRE(started.size() == 1);
  CHECK(started.front().command == "orted -mca ess \"env\"");
  CHECK(job.started(0).empty());
  for (const char* other : {"n1", "n3"}) {  // not theirs to say
    job.relay.remote_start_ended({other}, {started.front().ticket, ExitStatus{9, 0}, "over"});
    CHECK(job.wires[0]->take<RemoteStartEnded>().empty());
  }
  job.relay.remote_start_ended({"n2"}, {started.front().ticket, ExitStatus{3, 0}, "over"});
  const auto ended = job.wires[0]->take<RemoteStartEnded>();
  REQUIRE(ended.size() == 1);
  CHECK(ended.front().ticket == "7");
  CHECK(ended.front().status.code == 3);
}

TEST_CASE("only node 0 of a job that runs mpirun has anything started elsewhere") {
  MpiJob job;
  job.ask("n2", "n1");  // another node of the job
  CHECK(job.started(0).empty());
  CHECK_THAT(job.refused(1), ContainsSubstring("node n2 runs no mpirun of j"));
  job.ask("n3", "n2");  // a node that has nothing to do with it
  CHECK(job.started(1).empty());
  CHECK_THAT(job.refused(2), ContainsSubstring("node n3 runs no mpirun of j"));
  job.ask("n1", "n2", "orted", AttemptId{1});  // an attempt that is not
  CHECK(job.started(1).empty());
  CHECK_THAT(job.refused(0), ContainsSubstring("runs no mpirun"));
  job.ask("n1", "n3");  // a node that the job does not have
  CHECK(job.started(2).empty());
  CHECK_THAT(job.refused(0), ContainsSubstring("no other node of the attempt is called n3"));
  job.ask("n1", "n1");
  CHECK_THAT(job.refused(0), ContainsSubstring("no other node"));
}

TEST_CASE("a job whose ranks muster starts itself has nothing started elsewhere") {
  MpiJob job(DistributionType::pytorch);
  job.ask("n1", "n2");
  CHECK_THAT(job.refused(0), ContainsSubstring("runs no mpirun"));
  CHECK(job.started(1).empty());
}

TEST_CASE("the controller passes on no command but mpirun's daemon") {
  MpiJob job;
  for (const char* command : {"id", "orted; id", "sh -c orted", "orted -mca orte_fork_agent x"}) {
    job.ask("n1", "n2", command);
    CHECK_THAT(job.refused(0), ContainsSubstring("only mpirun's daemon"));
    CHECK(job.started(1).empty());
  }
}

TEST_CASE("with remote_start node 0 has commands run on nodes of its attempt, and no other") {
  MpiJob job(DistributionType::none, true);
  job.ask("n1", "n2", "id; pwd");
  job.ask("n1", "n1", "hostname");
  CHECK(job.started(1).at(0).command == "id; pwd");
  CHECK(job.started(0).at(0).ticket == "j.0.n1.7");
  job.ask("n1", "n3", "id");
  CHECK_THAT(job.refused(0), ContainsSubstring("no other node of the attempt is called n3"));
  job.ask("n2", "n1", "id");
  CHECK_THAT(job.refused(1), ContainsSubstring("node n2 runs no mpirun of j"));
  job.ask("n1", "n2", "id", AttemptId{1});
  CHECK_THAT(job.refused(0), ContainsSubstring("runs no mpirun"));
  CHECK(job.started(1).empty());

  // What they write goes to node 0, and its word that it was taken back.
  const RemoteOutput piece{{{"j"}, {}, 7, 3, "forged"}};
  job.relay.take({"n3"}, piece, "not theirs");
  CHECK(job.wires[0]->take<RemoteOutput>().empty());
  job.relay.take({"n2"}, piece, "words");
  const auto passed = job.wires[0]->take<RemoteOutput>();
  REQUIRE(passed.size() == 1);
  CHECK(passed[0].node == "n2");
  CHECK(passed[0].offset == 3);
  job.relay.take({"n2"}, RemoteOutputAck{{{"j"}, {}, 7, 8, "n2"}}, {});
  job.relay.take({"n1"}, RemoteOutputAck{{{"j"}, {}, 7, 8, "n3"}}, {});
  CHECK(job.wires[1]->take<RemoteOutputAck>().empty());
  CHECK(job.wires[2]->take<RemoteOutputAck>().empty());
  job.relay.take({"n1"}, RemoteOutputAck{{{"j"}, {}, 7, 8, "n2"}}, {});
  CHECK(job.wires[1]->take<RemoteOutputAck>().at(0).offset == 8);
}

TEST_CASE("a daemon whose node was away is asked for again when it is back, until it has ended") {
  MpiJob job;
  job.ask("n1", "n2");
  const auto first = job.started(1);
  REQUIRE(first.size() == 1);
  job.relay.node_up({"n3"}, {});
  CHECK(job.started(2).empty());
  job.relay.node_up({"n2"}, {});
  const auto again = job.started(1);
  REQUIRE(again.size() == 1);
  CHECK(again[0].ticket == first[0].ticket);
  job.relay.remote_start_ended({"n2"}, {first[0].ticket, ExitStatus{0, 0}, ""});
  job.relay.node_up({"n2"}, {});
  CHECK(job.started(1).empty());
}

TEST_CASE("a command goes to the node of its rank, by default of rank 0, and to no other") {
  ExecDesk desk;
  desk.ask(std::nullopt);
  const auto asked = desk.wire->take<ExecStart>();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].job == JobId{"j"});
  CHECK(asked[0].attempt == AttemptId{0});
  CHECK(asked[0].rank == RankId{0});
  CHECK(asked[0].argv == std::vector<std::string>{"ls", "-l"});
  const auto accepted = desk.client.take<Accepted>();
  REQUIRE(accepted.size() == 1);
  CHECK(accepted[0].note == "n1");
  CHECK_FALSE(desk.client.is_over());
  const auto other = desk.agents.connect(address_of("n2", "b"));
  desk.ask(RankId{1});
  CHECK(other->take<ExecStart>().at(0).rank == RankId{1});
  CHECK(desk.wire->take<ExecStart>().empty());
}

TEST_CASE("a command for a rank that is not there, or cannot be reached, is refused") {
  ExecDesk desk;
  SECTION("a job that nobody knows") {
    desk.ask(RankId{0}, "unknown");
    CHECK_THAT(desk.refused(), ContainsSubstring("job unknown is not running"));
  }
  SECTION("a job that has no ranks yet") {
    desk.ask(RankId{0}, "waits");
    CHECK_THAT(desk.refused(), ContainsSubstring("job waits is not running"));
  }
  SECTION("more than it has") {
    desk.ask(RankId{2});
    CHECK(desk.refused() == "job j has ranks 0 to 1, not 2");
  }
  SECTION("less than any") {
    desk.ask(RankId{-1});
    CHECK(desk.refused() == "job j has ranks 0 to 1, not -1");
  }
  SECTION("a node that is not connected") {
    desk.ask(RankId{1});
    CHECK(desk.refused() == "node n2 is not connected");
  }
  SECTION("a node that has left") {
    auto& phase = desk.agents.state.jobs.at({"j"}).phase;
    std::get<Active>(phase).attempt.nodes[0].departure.emplace().is_released = true;
    desk.ask(RankId{0});
    CHECK(desk.refused() == "rank 0 of job j runs no more: it left with node n1");
  }
  CHECK(desk.client.is_over());
  CHECK(desk.wire->take<ExecStart>().empty());
}

TEST_CASE("a node of the job is named by its index, from 0") {
  ExecDesk desk;
  const auto other = desk.agents.connect(address_of("n2", "b"));
  Exec request{{"j"}, std::nullopt, {"ls"}};
  request.node = 1;
  desk.relay.exec(desk.client.session, request);
  CHECK(other->take<ExecStart>().at(0).rank == RankId{1});
  PairedClient second(desk.agents.io);
  request.node = 2;
  desk.relay.exec(second.session, request);
  CHECK(second.take<Refused>().at(0).message == "job j has nodes 0 to 1, not 2");
  PairedClient third(desk.agents.io);
  request.node = -1;
  desk.relay.exec(third.session, request);
  CHECK(third.take<Refused>().at(0).message == "job j has nodes 0 to 1, not -1");
  CHECK(desk.wire->take<ExecStart>().empty());
}

TEST_CASE("a job has 64 forwarded connections at most, commands beside them not counted") {
  ExecDesk desk;
  Exec request{{"j"}, RankId{0}, {}};
  request.channel.emplace().socket = "8888";
  std::vector<std::unique_ptr<PairedClient>> clients;
  for (int i = 0; i < 65; ++i) {
    clients.push_back(std::make_unique<PairedClient>(
        desk.agents.io, [&](const auto& gone) { desk.relay.client_gone(gone); }));
    desk.relay.exec(clients.back()->session, request);
  }
  CHECK_THAT(clients.back()->take<Refused>().at(0).message,
             ContainsSubstring("has 64 forwarded connections"));
  CHECK(desk.wire->take<ExecStart>().size() == 64);
  desk.ask(RankId{0});
  CHECK(desk.refused().empty());
  clients.front()->close();
  desk.agents.io.poll();
  clients.push_back(std::make_unique<PairedClient>(desk.agents.io));
  desk.relay.exec(clients.back()->session, request);
  CHECK(clients.back()->take<Refused>().empty());
}

TEST_CASE("what a side has taken is told to the other, and to no third") {
  ExecDesk desk;
  desk.ask(RankId{0});
  const std::string id = desk.begun();
  PairedClient stranger(desk.agents.io);
  desk.relay.control(stranger.session, {"", 9, 0, 0});
  CHECK(desk.wire->take<ExecControl>().empty());
  desk.relay.control(desk.client.session, {"forged", 7, 40, 90});
  const auto told = desk.wire->take<ExecControl>();
  REQUIRE(told.size() == 1);
  CHECK(told[0].id == id);
  CHECK(told[0].taken == 7);
  CHECK(told[0].columns == 90);
  desk.relay.taken({"n2"}, {id, 5});
  CHECK(desk.client.take<ExecTaken>().empty());
  desk.relay.taken({"n1"}, {id, 5});
  CHECK(desk.client.take<ExecTaken>().at(0).bytes == 5);
}

TEST_CASE("bytes of a command go both ways, between its client and its node alone") {
  ExecDesk desk;
  desk.ask(RankId{0});
  const std::string id = desk.begun();
  desk.client.messages();
  PairedClient stranger(desk.agents.io);
  desk.relay.input(stranger.session, "not ours");
  CHECK(desk.wire->take<ExecInput>().empty());
  desk.relay.input(desk.client.session, "yes\n");
  CHECK(desk.wire->take<ExecInput>().at(0).id == id);

  desk.relay.output({"n2"}, {id, false}, "forged");
  desk.relay.output({"n1"}, {"e99", false}, "of another");
  desk.relay.output({"n1"}, {id, true}, "some words");
  const auto said = desk.client.messages();
  REQUIRE(said.size() == 1);
  CHECK(std::get<ExecOutput>(said[0].message).is_stderr);
  CHECK(said[0].payload == "some words");

  desk.relay.ended({"n2"}, {id, ExitStatus{9, 0}, ""});
  CHECK(desk.client.take<ExecEnded>().empty());
  desk.relay.ended({"n1"}, {id, ExitStatus{3, 0}, ""});
  const auto ended = desk.client.take<ExecEnded>();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].status.code == 3);
  CHECK(desk.client.is_over());
}

TEST_CASE("a side of a command that goes away ends it for the other side") {
  ExecDesk desk;
  desk.ask(RankId{0});
  const std::string id = desk.begun();
  SECTION("the client") {
    desk.client.close();
    desk.agents.io.poll();
    const auto stopped = desk.wire->take<ExecStop>();
    REQUIRE(stopped.size() == 1);
    CHECK(stopped[0].id == id);
  }
  SECTION("the node") {
    desk.relay.node_down({"n2"}, {});
    CHECK(desk.refused().empty());
    desk.relay.node_down({"n1"}, {});
    CHECK(desk.refused() == "the connection to node n1 was lost");
    CHECK(desk.client.is_over());
    CHECK(desk.wire->take<ExecStop>().empty());
  }
}

}  // namespace muster
