// Agents of an elastic attempt: who takes part, who joins, who leaves.
#include <fstream>
#include <sstream>

#include "launcher/controller/agents/work_message.h"
#include "launcher/controller/store/job_leavings.h"
#include "launcher/staging/file_sink.h"
#include "runtime/protocol/membership.h"
#include "scheduler/state/lookup.h"
#include "tests/launcher/controller/agents.h"

namespace muster {
namespace {

const JobId elastic_job{"j"};
const AttemptId attempt_0{0};

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Nodes n1 and n2 are members with two ranks each, n3 has two that wait to be made members.
struct Elastic : Agents {
  Elastic() {
    JobSubmitted submitted = a_job("j", "a");
    submitted.target.lease = Milliseconds{60'000};
    submitted.spec.distribution = {DistributionType::pytorch, 2, 0, 0};
    submitted.spec.muster.nodes_max = 4;
    know(Observation{submitted});
    Attempt running;
    running.id = attempt_0;
    running.launched = true;
    running.phase = Running{};
    running.processes = {2, 2, 2};
    for (int i = 0; i < 3; ++i) {
      const std::string name = "n" + std::to_string(i + 1);
      AttemptNode node;
      node.id = {name};
      node.ports =
          PortsReserved{elastic_job, attempt_0, node.id, {4000 + 10 * i, 4001 + 10 * i}, {}};
      node.started = NodeStarted{elastic_job, attempt_0, node.id, {}};
      running.nodes.push_back(node);
      for (int local = 0; local < 2; ++local) {
        running.ranks.push_back({RankId{2 * i + local}, i, local, RankWaiting{}});
      }
      Node& known = state.nodes[node.id];
      known.id = node.id;
      known.owner = elastic_job;
      LinkUp up;
      up.node = node.id;
      up.host_name = "host-" + name;
      if (i == 1) up.job_address = "10.0.0.2";
      known.link = Linked{up};
    }
    running.members = {2, {RankId{2}, RankId{3}, RankId{0}, RankId{1}}};
    running.nodes[2].join = Join{.begun = from_ms(1)};
    known_job().next_attempt = 1;
    known_job().phase = Active{std::move(running)};
  }
  Job& known_job() { return state.jobs.at(elastic_job); }
  Attempt& attempt() { return std::get<Active>(known_job().phase).attempt; }
  std::shared_ptr<FakeWire> agent(const std::string& node) {
    return connect(address_of(node, node));
  }
  ToAgent message(int node_index, Work work) {
    WorkMessages messages(state, from_ms(1), pool, home);
    const NodeId node = attempt().nodes[static_cast<std::size_t>(node_index)].id;
    return messages.message({elastic_job, attempt_0, node, node_index, std::move(work)});
  }
  // As an agent whose ranks there are gone.
  void leave(std::size_t index) {
    AttemptNode& node = attempt().nodes[index];
    node.departure = Departure{NodeLeaving{elastic_job, attempt_0, node.id, {}, {}}, {}};
    node.stopped = ProvenClean{};
  }
  void send_file(FakeWire& wire, const std::string& name, const std::string& content) {
    const auto size = static_cast<std::int64_t>(content.size());
    wire.say(FileData{elastic_job,
                      attempt_0,
                      {TreeEntry::Kind::file, "outputs/" + name, 0600, size, {}, {}},
                      0,
                      true},
             content);
  }
  template <class T>
  std::vector<T> seen() {
    std::vector<T> all;
    for (const Observation& one : observed) {
      if (const auto* it = std::get_if<T>(&one)) all.push_back(*it);
    }
    return all;
  }
};

Progress a_beat(std::int64_t rank) {
  Progress beat;
  beat.job = elastic_job;
  beat.rank = RankId{rank};
  beat.step = 0;
  return beat;
}

TEST_CASE("the membership lists the members in their order, with the place where each listens") {
  Elastic agents;
  const auto set = std::get<SetMembers>(agents.message(0, MembersWork{}));
  CHECK(set.members_epoch == 2);
  const auto text = parse_membership(set.content);
  REQUIRE(text);
  CHECK(text->epoch == 2);
  REQUIRE(text->members.size() == 4);
  CHECK(text->members[0] == EpochMember{2, "10.0.0.2", 4010, "n2"});
  CHECK(text->members[1] == EpochMember{3, "10.0.0.2", 4011, "n2"});
  CHECK(text->members[2] == EpochMember{0, "host-n1", 4000, "n1"});
}

TEST_CASE("a member that does not answer for a moment keeps its address in the membership") {
  Elastic agents;
  Node& node = agents.state.nodes.at({"n2"});
  node.link = Unlinked{{LinkFailureKind::lost, "gone"}, from_ms(2), *last_agent(node), from_ms(2)};
  const auto text =
      parse_membership(std::get<SetMembers>(agents.message(0, MembersWork{})).content);
  REQUIRE(text);
  CHECK(text->members[0].host == "10.0.0.2");
}

TEST_CASE("ranks of the start get the first membership with their start, those of a joiner none") {
  Elastic agents;
  const auto first = std::get<StartRanks>(agents.message(0, StartWork{}));
  CHECK(first.elastic);
  CHECK(parse_membership(first.members));
  const auto joins = std::get<StartRanks>(agents.message(2, StartWork{}));
  CHECK(joins.elastic);
  CHECK(joins.members.empty());
  REQUIRE(joins.ranks.size() == 2);
  CHECK(joins.ranks[0].rank == RankId{4});
  CHECK(joins.ranks[0].environment.at("RANK") == "4");
  CHECK(joins.ranks[1].environment.at("LOCAL_RANK") == "1");
}

TEST_CASE("a node that leaves is told so without a signal, one that is stopped with the job's") {
  Elastic agents;
  StopBegun why{elastic_job, attempt_0, StopReason::drained, "", Milliseconds{7000}};
  const auto leaves = std::get<StopAttempt>(agents.message(1, StopWork{why, true}));
  CHECK(leaves.signal.empty());
  CHECK(leaves.grace == Milliseconds{7000});
  CHECK(std::get<StopAttempt>(agents.message(1, StopWork{why})).signal == "SIGTERM");
}

TEST_CASE("a node that joins is ready when every rank of it has written a heartbeat") {
  Elastic agents;
  const auto member = agents.agent("n1");
  const auto joins = agents.agent("n3");
  member->say(a_beat(0));
  member->say(a_beat(1));
  member->say(a_beat(4));
  joins->say(a_beat(4));
  joins->say(a_beat(4));
  joins->say(a_beat(1));
  CHECK(agents.seen<NodeReady>().empty());
  joins->say(a_beat(5));
  REQUIRE(agents.seen<NodeReady>().size() == 1);
  CHECK(agents.seen<NodeReady>()[0].node.value == "n3");
  SECTION("told again over a later connection") {
    agents.inbox.node_up({"n3"}, Welcome{});
    joins->say(a_beat(5));
    CHECK(agents.seen<NodeReady>().size() == 1);
    joins->say(a_beat(4));
    CHECK(agents.seen<NodeReady>().size() == 2);
  }
  SECTION("and not once it is known") {
    agents.attempt().nodes[2].join->ready_at = from_ms(2);
    joins->say(a_beat(4));
    joins->say(a_beat(5));
    CHECK(agents.seen<NodeReady>().size() == 1);
  }
}

TEST_CASE("what an agent says of its membership file is observed, and of no other node's") {
  Elastic agents;
  const auto wire = agents.agent("n2");
  const auto stranger = agents.agent("n9");
  stranger->say(MembersSet{elastic_job, attempt_0, 2, ""});
  CHECK(agents.observed.empty());
  wire->say(MembersSet{elastic_job, attempt_0, 2, "disk full"});
  REQUIRE(agents.seen<MembersTold>().size() == 1);
  CHECK(agents.seen<MembersTold>()[0].node.value == "n2");
  CHECK(agents.seen<MembersTold>()[0].members_epoch == 2);
  CHECK(agents.seen<MembersTold>()[0].error == "disk full");
}

TEST_CASE("where a node's outputs lie is journaled with its start") {
  Elastic agents;
  const auto wire = agents.agent("n3");
  wire->say(StartDone{elastic_job, attempt_0, "", "/home/u/.muster/jobs/j"});
  REQUIRE(agents.seen<NodeStarted>().size() == 1);
  CHECK(agents.seen<NodeStarted>()[0].directory == "/home/u/.muster/jobs/j");
}

TEST_CASE("files of a node that leaves are in place before it is known that they came") {
  Elastic agents;
  const auto wire = agents.agent("n2");
  const auto other = agents.agent("n3");
  agents.leave(1);
  agents.leave(2);
  agents.send_file(*other, "n3", "half of");
  agents.send_file(*wire, "log", "of the one that left");
  wire->say(CollectDone{elastic_job, attempt_0, "", {}});
  REQUIRE(agents.seen<OutputsCollected>().size() == 1);
  CHECK(agents.seen<OutputsCollected>()[0].error.empty());
  CHECK(text_of(agents.home.outputs(elastic_job) / "log") == "of the one that left");
  CHECK_FALSE(std::filesystem::exists(agents.home.outputs(elastic_job) / "n3"));
  const auto settled = load_settled(agents.home.settled(elastic_job, attempt_0));
  REQUIRE(settled);
  CHECK(settled->contains("outputs/log"));

  // The others come at the end, to a controller that knows of nothing.
  agents.attempt().nodes[1].departure->is_released = true;
  agents.attempt().nodes[2].departure->is_released = true;
  agents.attempt().phase = Collecting{};
  agents.attempt().nodes[0].stopped = ProvenClean{};
  Observed of_later;
  AgentInbox later(agents.timers, agents.home, agents.state, agents.pool, agents.logs, of_later,
                   [](const NodeId&, const JobId&, AttemptId) { return false; });
  const TreeEntry log{TreeEntry::Kind::file, "outputs/log", 0600, 4, {}, {}};
  later.take({"n1"}, FileData{elastic_job, attempt_0, log, 0, true}, "last");
  later.take({"n1"}, CollectDone{elastic_job, attempt_0, "", {}}, "");
  CHECK(text_of(agents.home.outputs(elastic_job) / "log") == "of the one that left");
  CHECK(text_of(agents.home.outputs(elastic_job) / "log.node0") == "last");
}

TEST_CASE("a node that was released forgets the attempt, unless it is part of it again") {
  Elastic agents;
  CHECK_FALSE(is_over(agents.state, *agents.store, {"n2"}, elastic_job, attempt_0));
  agents.attempt().nodes[1].departure.emplace().is_released = true;
  CHECK(is_over(agents.state, *agents.store, {"n2"}, elastic_job, attempt_0));
  CHECK_FALSE(is_over(agents.state, *agents.store, {"n1"}, elastic_job, attempt_0));
  CHECK_FALSE(is_over(agents.state, *agents.store, {"n9"}, elastic_job, attempt_0));
  AttemptNode again;
  again.id = {"n2"};
  agents.attempt().nodes.push_back(again);
  CHECK_FALSE(is_over(agents.state, *agents.store, {"n2"}, elastic_job, attempt_0));
}

TEST_CASE("free nodes that a running elastic job could take are connected by its target") {
  Elastic agents;
  agents.known_job().target.nodes.push_back(address_of("n4", "d"));
  agents.known_job().target.nodes.push_back(address_of("n5", "e"));
  for (const char* name : {"n4", "n5"}) agents.state.nodes[{name}].id = {name};
  agents.state.nodes.at({"n5"}).drained = true;
  for (int turn = 0; turn < 2; ++turn) agents.perform();
  REQUIRE(agents.transport.asked.size() == 2);
  CHECK(agents.transport.asked[0].address.host == "a");
  CHECK(agents.transport.asked[1].address.host == "d");
}

TEST_CASE("a node that comes back is given nothing before its earlier part is forgotten") {
  Elastic agents;
  agents.attempt().nodes[1].departure.emplace().is_released = true;
  const auto wire = agents.agent("n2");
  Welcome welcome;
  welcome.held = {{elastic_job, attempt_0}};
  agents.inbox.node_up({"n2"}, welcome);
  CHECK(wire->take<StopAttempt>().size() == 1);
  AttemptNode again;
  again.id = {"n2"};
  again.join.emplace();
  agents.attempt().nodes.push_back(again);
  const NodeWork check{elastic_job, attempt_0, {"n2"}, 3, CheckWork{}};
  CHECK(agents.inbox.clears_away(check));
  wire->say(output_of("j", 2), "late words");
  CHECK(wire->take<OutputAck>().size() == 1);
  wire->say(AttemptClean{elastic_job, attempt_0, {}, {}});
  CHECK(wire->take<ForgetAttempt>().size() == 1);
  CHECK(agents.turns == 1);
  CHECK_FALSE(agents.inbox.clears_away(check));
  CHECK(agents.seen<NodeClean>().empty());
}

TEST_CASE("a node speaks of its own ranks, not of another's in the same attempt") {
  Elastic agents;
  const auto owner = agents.agent("n1");
  const auto other = agents.agent("n2");
  other->say(output_of("j", 0), "forged");
  CHECK(other->take<OutputAck>().empty());
  CHECK_FALSE(std::filesystem::exists(agents.home.rank_log(elastic_job, attempt_0, {0})));
  RankEnded ended;
  ended.job = elastic_job;
  ended.status.code = 1;
  other->say(ended);
  CHECK(agents.observed.empty());
  owner->say(output_of("j", 0), "true");
  CHECK(owner->take<OutputAck>().size() == 1);
  owner->say(ended);
  REQUIRE(agents.seen<RankExited>().size() == 1);
  CHECK(agents.seen<RankExited>()[0].node.value == "n1");
  CHECK(agents.seen<RankExited>()[0].status.code == 1);
}

TEST_CASE("the end of a rank comes after the newest step of the job, and once") {
  Elastic agents;
  const auto wire = agents.agent("n1");
  const auto step = [&wire](std::int64_t rank, std::int64_t number) {
    Progress seen = a_beat(rank);
    seen.step = number;
    wire->say(seen);
  };
  const auto steps = [&agents] {
    std::vector<std::int64_t> all;
    for (const ProgressSeen& each : agents.seen<ProgressSeen>()) all.push_back(each.step);
    return all;
  };
  RankEnded ended;
  ended.job = elastic_job;
  step(0, 5);
  CHECK(steps() == std::vector<std::int64_t>{5});
  step(0, 9);
  step(1, 7);  // a rank that is behind
  CHECK(steps() == std::vector<std::int64_t>{5});
  wire->say(ended);
  CHECK(steps() == std::vector<std::int64_t>{5, 9});
  REQUIRE(agents.observed.size() == 3);
  CHECK(std::holds_alternative<RankExited>(agents.observed.back()));
  ended.rank = {1};
  wire->say(ended);
  CHECK(steps() == std::vector<std::int64_t>{5, 9});
  agents.attempt().ranks[0].state = RankDone{};
  ended.rank = {0};
  wire->say(ended);
  CHECK(agents.seen<RankExited>().size() == 2);
}

TEST_CASE("without a step the end of a rank comes alone") {
  Elastic agents;
  const auto wire = agents.agent("n1");
  RankEnded ended;
  ended.job = elastic_job;
  wire->say(ended);
  REQUIRE(agents.observed.size() == 1);
  CHECK(std::holds_alternative<RankExited>(agents.observed[0]));
}

TEST_CASE("a node is told to stop once, and again when it is given another time or reason") {
  Elastic agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  StopBegun stop{elastic_job, attempt_0, StopReason::canceled, "", Milliseconds{30'000}, {}};
  stop.grace_max = Milliseconds{60'000};
  const auto told = [&] {
    agents.know(Decision{stop});
    agents.perform();
    return wire->take<StopAttempt>();
  };
  REQUIRE(told().size() == 1);
  CHECK(told().empty());
  stop.grace = Milliseconds{5'000};
  const auto shorter = told();
  REQUIRE(shorter.size() == 1);
  CHECK(shorter[0].grace == Milliseconds{5'000});
  stop.grace_max = Milliseconds{10'000};
  CHECK(told().size() == 1);
  std::get<Stopping>(agents.attempt().phase).why.reason = StopReason::preempted;
  CHECK(told().size() == 1);
  CHECK(told().empty());
}

}  // namespace
}  // namespace muster
