// mpirun over two agents of this machine: the daemons travel through the agents and the controller.
#include <unistd.h>
#include <cstdio>
#include <cstdlib>

#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"
#include "tests/skip.h"

using namespace muster;

namespace {

bool has_mpirun() {
  const auto is_there = [](const std::string& program) {
    return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
  };
  return is_there("mpirun") && (is_there("orted") || is_there("prted"));
}

// Two pretend nodes under one controller, whose messages are handed from one to the other.
struct MpiPair {
  explicit MpiPair(const std::string& command) {
    REQUIRE(second.serve() == 0);
    REQUIRE(first.serve() == 0);
    one.emplace(first.socket_path());
    two.emplace(second.socket_path());
    one->hello(first.controller(), first.name());
    two->hello(second.controller(), second.name());
    one->on_remote_start = [this](const RemoteStartAsked& asked) {
      CHECK(asked.host == "local-1");
      two->send(RemoteStart{asked.ticket, asked.job, asked.attempt, asked.command});
    };
    two->on_remote_start_ended = [this](const RemoteStartEnded& over) { one->send(over); };
    for (int index = 1; index >= 0; --index) {
      StartRanks start = a_start(command, 0);
      start.node_index = index;
      start.mpi = MpiLaunch{{"local-0", "local-1"}, 2};
      start.mpi->one_machine = true;
      for (int local = 0; local < 2; ++local) {
        const int rank = index * 2 + local;
        start.ranks.push_back({RankId{rank}, local, {{"MINE", "m" + std::to_string(rank)}}});
      }
      const auto done = client(index).ask<StartDone>(start);
      REQUIRE(done.error == "");
    }
  }
  AgentClient& client(int index) { return index == 0 ? *one : *two; }
  bool wait(const std::function<bool()>& holds) {
    return eventually(
        [&] {
          one->take(std::chrono::milliseconds{5});
          two->take(std::chrono::milliseconds{5});
          return holds();
        },
        patience);
  }
  void clean() {
    one->send(a_stop());
    two->send(a_stop());
    CHECK(one->await<AttemptClean>());
    CHECK(two->await<AttemptClean>());
  }
  TestNode first{"local-0"};
  TestNode second{"local-1"};
  std::optional<AgentClient> one;
  std::optional<AgentClient> two;
};

}  // namespace

TEST_CASE("ranks under mpirun run on the nodes they belong to") {
  if (!has_mpirun()) {
    skip_test("Open MPI is not installed");
    return;
  }
  MpiPair pair(
      "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK $MINE");
  REQUIRE(
      pair.wait([&] { return pair.one->ended().size() == 2 && pair.two->ended().size() == 2; }));
  pair.clean();
  for (int rank = 0; rank < 4; ++rank) {
    AgentClient& client = pair.client(rank / 2);
    const std::string number = std::to_string(rank);
    INFO(client.output(-1));
    CHECK(client.output(rank) == number + "/4 " + std::to_string(rank % 2) + " m" + number + "\n");
    CHECK(client.ended()[rank].status.ok());
  }
  CHECK(pair.two->output(-1) == "");
}

TEST_CASE("ranks under mpirun compute together") {
  if (!has_mpirun() || std::system("command -v mpicc >/dev/null 2>&1") != 0) {
    skip_test("Open MPI and its compiler are not installed");
    return;
  }
  const std::string program = "/tmp/muster-mpi-sum." + std::to_string(::getpid());
  const std::string source = std::string(MUSTER_SOURCE_DIR) + "/tests/launcher/agent/mpi_sum.c";
  REQUIRE(std::system(("mpicc -o " + program + " " + source).c_str()) == 0);
  MpiPair pair(program);
  REQUIRE(
      pair.wait([&] { return pair.one->ended().size() == 2 && pair.two->ended().size() == 2; }));
  pair.clean();
  std::remove(program.c_str());
  INFO(pair.one->output(-1));
  for (int rank = 0; rank < 4; ++rank) CHECK(pair.client(rank / 2).output(rank) == "sum 6\n");
}

TEST_CASE("a rank that fails under mpirun is reported with its own code and all the rest ends") {
  if (!has_mpirun()) {
    skip_test("Open MPI is not installed");
    return;
  }
  MpiPair pair("if [ $OMPI_COMM_WORLD_RANK = 3 ]; then echo broken; exit 9; fi; sleep 1000");
  REQUIRE(pair.wait([&] { return pair.two->ended().contains(3); }));
  CHECK(pair.two->ended()[3].status.code == 9);
  CHECK(pair.two->ended()[3].last_lines == std::vector<std::string>{"broken"});
  pair.clean();
  CHECK(pair.one->ended().size() == 2);
}
