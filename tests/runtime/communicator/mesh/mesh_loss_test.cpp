// Ranks that die, stop, leave or give up: all others hear of it at once, and by name.

#include <chrono>
#include <ctime>

#include "tests/runtime/process_world.h"

using namespace muster;
using namespace muster::test;

namespace {

const ProcessWorld::Settings by_memory{{std::chrono::seconds(60), true, true}};
const ProcessWorld::Settings by_ring{{std::chrono::seconds(60), true, false}};
const ProcessWorld::Settings by_tcp{{std::chrono::seconds(60), false, false}};

double now_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

using Operate = std::function<void(Communicator&)>;

void exchange_all(Communicator& ranks, std::size_t each) {
  const std::size_t size = ranks.size();
  const std::vector<float> send(each * size);
  std::vector<float> receive(each * size);
  std::vector<ElementRange> ranges;
  for (std::size_t r = 0; r < size; ++r) ranges.push_back({r * each, (r + 1) * each});
  ranks.all_to_all(send, ranges, receive, ranges);
}

void gather_all(Communicator& ranks) {
  std::vector<float> whole(600000);
  std::vector<ElementRange> owned;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    owned.push_back({whole.size() * r / ranks.size(), whole.size() * (r + 1) / ranks.size()});
  }
  ranks.all_gather(whole, owned);
}

const std::vector<std::pair<std::string, Operate>> operations{
    {"all_to_all", [](Communicator& ranks) { exchange_all(ranks, 300000); }},
    {"all_gather", gather_all},
    {"gather_texts", [](Communicator& ranks) { ranks.gather_texts(std::string(70000, 'x')); }},
    {"broadcast", [](Communicator& ranks) {
       std::string bytes(900000, 'x');
       ranks.broadcast(std::span(bytes.data(), bytes.size()), 1);
     }}};

// Operates until a rank is lost; then says which one and when.
RankPart operate_until_lost(const Operate& operate) {
  return [operate](Communicator& ranks, const std::function<void()>& is_ready) -> std::string {
    try {
      for (std::uint64_t i = 0;; ++i) {
        operate(ranks);
        if (i == 3) is_ready();
      }
    } catch (const PeerLost& lost) {
      return std::to_string(lost.rank) + " " + std::to_string(now_s());
    }
  };
}

void check_that_a_kill_is_heard(const ProcessWorld::Settings& settings, const std::string& name,
                                const Operate& operate, std::size_t victim) {
  INFO(name << ", rank " << victim << " is killed");
  ProcessWorld world(3, settings);
  world.start(operate_until_lost(operate));
  for (std::size_t r = 0; r < 3; ++r) world.wait_until_ready(r);
  const double killed = now_s();
  world.signal(victim, SIGKILL);
  for (std::size_t r = 0; r < 3; ++r) {
    if (r == victim) continue;
    const std::string result = world.result(r);
    INFO("rank " << r << ": " << result);
    REQUIRE(result.starts_with(std::to_string(victim) + " "));
    CHECK(std::stod(result.substr(2)) - killed < 1.0);
  }
  CHECK(world.code(victim) == 128 + SIGKILL);
}

}  // namespace

TEST_CASE("a rank killed in any operation is named by all others within a second") {
  for (const auto& [name, operate] : operations) {
    for (const std::size_t victim : {0, 1, 2}) {
      check_that_a_kill_is_heard(by_memory, name + " by memory", operate, victim);
    }
    check_that_a_kill_is_heard(by_ring, name + " by the ring", operate, 1);
    check_that_a_kill_is_heard(by_tcp, name + " by TCP", operate, 0);
    check_that_a_kill_is_heard(by_tcp, name + " by TCP", operate, 2);
  }
}

TEST_CASE("a rank that stands still is given up after the peer timeout") {
  for (const bool memory : {true, false}) {
    ProcessWorld world(2, {{std::chrono::seconds(1), memory, true}});
    world.start([](Communicator& ranks, const auto& is_ready) -> std::string {
      ranks.gather_texts("here");
      is_ready();
      if (ranks.rank() == 1) ::raise(SIGSTOP);
      for (int i = 0; i < 2; ++i) ranks.gather_texts("still here");
      return "went on";
    });
    world.wait_until_ready(0);
    const std::string result = world.result(0);
    CHECK_THAT(result, ContainsSubstring("rank 1 is lost: no answer for 1 s (--peer-timeout)"));
    // Whoever wakes up later learns that the others went away without it.
    world.signal(1, SIGCONT);
    CHECK_THAT(world.result(1), ContainsSubstring("rank 1 is lost: no answer for 1 s"));
  }
}

TEST_CASE("a rank that ends the run ends the operations of all others") {
  ProcessWorld world(3, {});
  world.start([](Communicator& ranks, const auto&) -> std::string {
    ranks.gather_texts("here");
    if (ranks.rank() == 2) ranks.abort(7);
    ranks.gather_texts("still here");
    return "went on";
  });
  for (const std::size_t r : {0, 1}) {
    CHECK(world.result(r) == "rank 2 is lost: it ended the run with exit code 7");
  }
  CHECK(world.code(2) == 7);
}

TEST_CASE("a rank that is done may leave while others still read what it sent") {
  for (const auto& settings : {by_memory, by_ring, by_tcp}) {
    ProcessWorld world(3, settings);
    world.start([](Communicator& ranks, const auto&) -> std::string {
      for (int i = 0; i < 20; ++i) exchange_all(ranks, 100000);
      return "done";
    });
    for (std::size_t r = 0; r < 3; ++r) CHECK(world.result(r) == "done");
  }
}

TEST_CASE("a rank that leaves too early is named") {
  ProcessWorld world(2, {});
  world.start([](Communicator& ranks, const auto&) -> std::string {
    ranks.gather_texts("here");
    if (ranks.rank() == 0) ranks.gather_texts("more");
    return "done";
  });
  CHECK(world.result(0) == "rank 1 is lost: it has ended while others went on");
  CHECK(world.result(1) == "done");
}

TEST_CASE("what was lost stays lost: no operation begins after it") {
  ProcessWorld world(2, {});
  world.start([](Communicator& ranks, const auto&) -> std::string {
    ranks.gather_texts("here");
    if (ranks.rank() == 1) ::raise(SIGKILL);
    std::string heard;
    for (int i = 0; i < 2; ++i) {
      try {
        ranks.gather_texts("more");
      } catch (const PeerLost& lost) {
        heard += std::to_string(lost.rank);
      }
    }
    return heard;
  });
  CHECK(world.result(0) == "11");
}
