// Ranks that come and go while the others run: the file that says who takes part, and the end of
// those who are in it no more.
#include <filesystem>

#include "runtime/protocol/membership.h"
#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;
using std::chrono::milliseconds;

namespace {

std::string members_of(std::uint64_t epoch, const std::vector<std::uint64_t>& ranks) {
  EpochMembers members{epoch, {}};
  for (const std::uint64_t rank : ranks) members.members.push_back({rank, "h1", 4000, "n1"});
  return format_membership(members);
}

SetMembers a_change(std::int64_t epoch, const std::vector<std::uint64_t>& ranks) {
  return {JobId{"job"}, {}, epoch, members_of(static_cast<std::uint64_t>(epoch), ranks)};
}

// A node that holds ports for two ranks.
struct ElasticNode {
  ElasticNode() {
    client.emplace(node.begin());
    const auto held = client->ask<PortsDone>(ReservePorts{JobId{"job"}, {}, 2, 20000, 29999});
    REQUIRE(held.error == "");
    ports = held.ports;
  }
  std::string start(const std::string& command, const std::string& members, int ranks = 1) {
    StartRanks request = a_start(command, ranks);
    request.elastic = true;
    request.members = members;
    const auto done = client->ask<StartDone>(request);
    return done.error;
  }
  std::string set(const SetMembers& change) {
    const auto done = client->ask<MembersSet>(change);
    CHECK(done.members_epoch == change.members_epoch);
    return done.error;
  }
  bool says(const std::string& text) {
    return client->wait([&] { return client->output(0) == text; });
  }

  TestNode node;
  std::optional<AgentClient> client;
  std::vector<int> ports;
};

StopAttempt no_signal(milliseconds grace) {
  return {JobId{"job"}, {}, "", grace};
}

// Ends when the file is without it, and says so when it is signalled.
const std::string follower =
    "trap 'echo signalled' TERM; echo ready; "
    "while [ ! -e $MUSTER_MEMBERS ] || grep -q '\"rank\":0' $MUSTER_MEMBERS; do sleep 0.05; done; "
    "echo left";

}  // namespace

TEST_CASE("a rank of an elastic job finds the first membership and a port of its own") {
  ElasticNode one;
  const std::string first = members_of(1, {0, 1});
  REQUIRE(one.start("cat $MUSTER_MEMBERS; echo $MUSTER_MEMBER_PORT", first, 2) == "");
  for (const int rank : {0, 1}) {
    REQUIRE(one.client->wait([&] { return one.client->ended().contains(rank); }));
    const int port = one.ports[static_cast<std::size_t>(rank)];
    CHECK(one.client->output(rank) == first + std::to_string(port) + "\n");
  }
}

TEST_CASE("a job that sets the variables of the membership itself does not get its way") {
  ElasticNode one;
  StartRanks request = a_start("echo $MUSTER_MEMBER_PORT");
  request.elastic = true;
  request.environment = {{"MUSTER_MEMBERS", "mine"}, {"MUSTER_MEMBER_PORT", "1"}};
  one.client->send(request);
  CHECK(one.says(std::to_string(one.ports[0]) + "\n"));
}

TEST_CASE("a rank that joins finds no membership until it is one of them") {
  ElasticNode one;
  const std::string waits =
      "ls $MUSTER_MEMBERS 2>/dev/null || echo alone; "
      "while [ ! -e $MUSTER_MEMBERS ]; do sleep 0.05; done; "
      "cat $MUSTER_MEMBERS";
  REQUIRE(one.start(waits, "") == "");
  REQUIRE(one.says("alone\n"));
  CHECK(one.set(a_change(3, {4, 0})) == "");
  CHECK(one.says("alone\n" + members_of(3, {4, 0})));
}

TEST_CASE("a membership that cannot be written is an error") {
  ElasticNode one;
  REQUIRE(one.start("sleep 1000", members_of(1, {0})) == "");
  const std::string path = one.node.run_directory() + "/attempts/job/0/members";
  std::filesystem::remove(path);
  std::filesystem::create_directories(path + "/in the way");
  CHECK_THAT(one.set(a_change(2, {0})), ContainsSubstring(path));
  std::filesystem::remove_all(path);
  CHECK(one.set(a_change(2, {0})) == "");
}

TEST_CASE("elastic ranks without ports or with a malformed membership are not started") {
  ElasticNode one;
  CHECK(one.start("echo never", "nonsense") == "the first membership of the attempt is malformed");
  StartRanks three = a_start("echo never", 3, "wide");
  three.elastic = true;
  const auto done = one.client->ask<StartDone>(three);
  CHECK(done.error == "this node holds 0 ports for 3 ranks of an elastic job");
}

TEST_CASE("ranks that leave end by themselves, unsignalled, with their own exit code") {
  ElasticNode one;
  REQUIRE(one.start(follower + "; exit 4", members_of(1, {0})) == "");
  REQUIRE(one.says("ready\n"));
  CHECK(one.set(a_change(2, {3})) == "");
  one.client->send(no_signal(milliseconds{30000}));
  one.client->ask<AttemptClean>(no_signal(milliseconds{30000}));
  CHECK(one.client->output(0) == "ready\nleft\n");
  REQUIRE(one.client->wait([&] { return one.client->ended().contains(0); }));
  CHECK(one.client->ended()[0].status.code == 4);
}

TEST_CASE("a rank that leaves and does not end is killed at the end of the grace") {
  ElasticNode one;
  REQUIRE(one.start("trap 'echo signalled' TERM; echo ready; while :; do sleep 0.05; done",
                    members_of(1, {0})) == "");
  REQUIRE(one.says("ready\n"));
  const auto begin = std::chrono::steady_clock::now();
  one.client->ask<AttemptClean>(no_signal(milliseconds{1000}));
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(took > milliseconds{1000});
  CHECK(took < milliseconds{4500});  // SIGTERM to all and 5 s would come in between
  CHECK(one.client->output(0) == "ready\n");
  REQUIRE(one.client->wait([&] { return one.client->ended().contains(0); }));
  CHECK(one.client->ended()[0].status.signal == 9);
}

TEST_CASE("ranks that leave are signalled when the whole attempt is stopped meanwhile") {
  ElasticNode one;
  REQUIRE(one.start("trap 'echo signalled; exit 5' TERM; echo ready; "
                    "while :; do sleep 0.05; done",
                    members_of(1, {0})) == "");
  REQUIRE(one.says("ready\n"));
  one.client->send(no_signal(milliseconds{60000}));
  one.client->ask<AttemptClean>(a_stop());
  CHECK(one.client->output(0).ends_with("signalled\n"));  // the shell tells of its child before
  REQUIRE(one.client->wait([&] { return one.client->ended().contains(0); }));
  CHECK(one.client->ended()[0].status.code == 5);
}
