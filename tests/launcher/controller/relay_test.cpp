// Commands that go from one node to another: mpirun's daemons, asked for on node 0, and none else.
#include "launcher/controller/relay.h"

#include "tests/launcher/controller/agents.h"

namespace muster {
namespace {

// An MPI job on n1 and n2, beside a job on n3.
struct MpiJob {
  explicit MpiJob(DistributionType type = DistributionType::mpi) {
    JobSubmitted job = a_job("j", "a");
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
  std::vector<RemoteStart> started(std::size_t node) {
    return wires[node]->take<RemoteStart>();
  }
  std::string refused(std::size_t node) {
    const auto ended = wires[node]->take<RemoteStartEnded>();
    return ended.empty() ? "" : ended.front().error;
  }
  void ask(const char* from, const std::string& host, const std::string& command = "orted",
           AttemptId attempt = {}) {
    relay.remote_start(agents.state, {from}, {"7", {"j"}, attempt, host, command});
  }
  Agents agents;
  Relay relay{agents.pool};
  std::vector<std::shared_ptr<FakeWire>> wires;
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

}  // namespace muster
