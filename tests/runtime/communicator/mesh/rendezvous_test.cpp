// Ranks that meet: who is refused, who is waited for, and what a stranger may say.

#include "runtime/communicator/mesh/rendezvous.h"

#include <atomic>
#include <thread>

#include "runtime/communicator/mesh/mesh.h"
#include "tests/runtime/free_port.h"
#include "tests/runtime/process_world.h"

using namespace muster;
using namespace muster::test;

namespace {

const RankPart stay = [](Communicator& ranks, const auto&) -> std::string {
  return std::to_string(ranks.gather_texts("here").size()) + " together";
};

ProcessWorld::Settings within(int ms) {
  return {{std::chrono::seconds(60)}, std::chrono::milliseconds(ms)};
}

// Rank 0 of {job, epoch 3, 2 ranks} and one other, whose result is released. Then the right one
// comes, and both go on.
std::string answer_to(const MeshSeat& other) {
  ProcessWorld world(2, within(20000));
  world.start_rank({"job", 3, 0, 2}, stay);
  world.start_rank(other, stay);
  const std::string answer = world.result(1);
  world.start_rank({"job", 3, 1, 2}, stay);
  CHECK(world.result(0) == "2 together");
  CHECK(world.result(2) == "2 together");
  return answer;
}

// As soon as rank 0 listens.
Descriptor call_rank_0(std::uint16_t port) {
  std::string why;
  for (int i = 0; i < 1000; ++i) {
    if (auto socket = try_connect_tcp("127.0.0.1", port, Patience({}, {}), why)) {
      return std::move(*socket);
    }
    ::usleep(10'000);
  }
  FAIL("rank 0 never listened");
  return {};
}

MessageStream introduced_to_rank_0(std::uint16_t port) {
  std::string why;
  auto stream = introduce(call_rank_0(port), "", std::to_string(port), Patience({}, {}), why);
  REQUIRE(stream);
  return std::move(*stream);
}

}  // namespace

TEST_CASE("a rank of another epoch, job or world is refused, and the right one still joins") {
  CHECK(answer_to({"job", 2, 1, 2}) ==
        "rank 1 is of epoch 2, rank 0 of epoch 3 (MUSTER_EPOCH): one of them is left from another "
        "attempt");
  CHECK_THAT(answer_to({"other", 3, 1, 2}),
             ContainsSubstring("rank 1 is of job other, rank 0 of job job"));
  CHECK_THAT(answer_to({"job", 3, 1, 3}), ContainsSubstring("expects 3 ranks, rank 0 2"));
  CHECK_THAT(answer_to({"job", 3, 2, 2}), ContainsSubstring("has no place in a world of 2"));
}

TEST_CASE("ranks may come in any order") {
  ProcessWorld world(3, within(20000));
  for (const std::uint64_t rank : {2, 1, 0}) {
    world.start_rank({"job", 1, rank, 3}, stay);
    ::usleep(50'000);  // the order of arrival, not a condition of success
  }
  for (std::size_t i = 0; i < 3; ++i) CHECK(world.result(i) == "3 together");
}

TEST_CASE("a second process with the same rank is refused") {
  ProcessWorld world(3, within(3000));
  for (int i = 0; i < 2; ++i) world.start_rank({"job", 1, 1, 3}, stay);
  world.start_rank({"job", 1, 0, 3}, stay);
  CHECK_THAT(world.result(0) + world.result(1),
             ContainsSubstring("there are two processes with RANK 1"));
}

TEST_CASE("ranks that never come are named to all that are there") {
  ProcessWorld world(4, within(500));
  world.start_rank({"job", 1, 0, 4}, stay);
  world.start_rank({"job", 1, 2, 4}, stay);
  CHECK(world.result(0) == "not all ranks came in time: no word from rank 1, 3");
  CHECK(world.result(1) == "not all ranks came in time: no word from rank 1, 3");
}

TEST_CASE("without rank 0 the others say where they looked") {
  ProcessWorld world(2, within(300));
  world.start_rank({"job", 1, 1, 2}, stay);
  CHECK_THAT(world.result(0), ContainsSubstring("MASTER_ADDR:MASTER_PORT 127.0.0.1:"));
  CHECK_THAT(world.result(0) + "", !ContainsSubstring("together"));
}

TEST_CASE("a rank that dies before all have come ends the start of all") {
  ProcessWorld world(3, within(20000));
  world.start_rank({"job", 1, 0, 3}, stay);
  introduced_to_rank_0(world.port()).send(RankHello{{"job", 1, 1, 3}, {}}, Deadline());
  CHECK(world.result(0) == "rank 1 left before all had come");
}

TEST_CASE("strangers at the port of rank 0 do not disturb") {
  ProcessWorld world(2, within(20000));
  world.start_rank({"job", 1, 0, 2}, stay);
  for (const std::string words : {"GET / HTTP/1.1\r\n\r\n", "", "MRTM"}) {
    send_all(call_rank_0(world.port()), words, Deadline());
  }
  introduced_to_rank_0(world.port()).send(Farewell{}, Deadline());
  world.start_rank({"job", 1, 1, 2}, stay);
  CHECK(world.result(0) == "2 together");
}

TEST_CASE("rank 0 leaves a meeting that is over, however often one who is refused comes again") {
  const std::uint16_t port = free_port();
  constexpr int most = 3000;
  std::atomic<int> refused = 0;
  std::atomic<bool> is_left = false;
  std::thread caller([&] {
    while (!is_left && refused < most) {
      try {
        std::string why;
        const Patience soon(std::chrono::seconds(5), {});
        auto socket = try_connect_tcp("127.0.0.1", port, soon, why);
        if (!socket) continue;
        auto stream = introduce(std::move(*socket), "", std::to_string(port), soon, why);
        if (!stream) continue;
        stream->send(RankHello{{"job", 4, 1, 2}, {}}, Deadline(std::chrono::seconds(5)));
        (void)await_message(*stream, "rank 0", soon);
        ++refused;
      } catch (const SocketError&) {
        // It has left.
      }
    }
  });
  const auto is_over = [&] { return refused >= 20; };
  const MeetingPlace place{"127.0.0.1", port, std::chrono::seconds(60), is_over};
  CHECK_THROWS_AS(meet({"job", 3, 0, 2}, place, Patience(place.limit, is_over)), MeetingFailed);
  CHECK(refused < most);
  is_left = true;
  caller.join();
}

TEST_CASE("a port that another process holds is an error on every rank") {
  ProcessWorld world(2, within(400));
  const Descriptor stale = listen_tcp("127.0.0.1", world.port());
  world.start([](Communicator&, const auto&) -> std::string { return "joined"; });
  CHECK_THAT(world.result(0), ContainsSubstring("another process holds it"));
  CHECK_THAT(world.result(1), ContainsSubstring("did not answer in time"));
}

TEST_CASE("a seat comes from the variables of the torch family") {
  RankVariables variables;
  const std::chrono::seconds hour(3600);
  CHECK_FALSE(mesh_start(variables, hour));
  variables.world_size = 1;
  CHECK_FALSE(mesh_start(variables, hour));
  variables.world_size = 4;
  CHECK_THROWS_WITH(mesh_start(variables, hour), ContainsSubstring("WORLD_SIZE says 4 ranks"));
  variables.rank = 3;
  variables.master_address = "h01";
  variables.master_port = 29500;
  variables.epoch = 2;
  variables.rendezvous_secret = "s";
  const auto start = mesh_start(variables, hour);
  REQUIRE(start);
  CHECK(start->seat.epoch == 2);
  CHECK(start->seat.rank == 3);
  CHECK(start->seat.size == 4);
  CHECK(start->place.port == 29500);
  CHECK(start->place.secret == "s");
  variables.rank = 4;
  CHECK_THROWS_WITH(mesh_start(variables, hour), ContainsSubstring("RANK: expected less than"));
  variables.rank = 0;
  variables.master_port = 65536;
  CHECK_THROWS_WITH(mesh_start(variables, hour), ContainsSubstring("MASTER_PORT: expected 1 to"));
}
