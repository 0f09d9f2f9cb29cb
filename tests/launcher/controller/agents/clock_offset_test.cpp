#include "launcher/controller/agents/clock_offset.h"

#include "tests/catch.h"

namespace muster {
namespace {

constexpr std::int64_t second_us = 1'000'000;

// A node whose clock is this far ahead; each way of a message takes what the test says.
struct RemoteClock {
  std::int64_t ahead_us = 0;
  void exchange(ClockOffset& clock, std::int64_t at_us, std::int64_t there_us,
                std::int64_t back_us) const {
    const std::int64_t received = at_us + there_us;
    clock.add({at_us, received + ahead_us, received + ahead_us}, received + back_us);
  }
};

TEST_CASE("without an exchange nothing is known") {
  CHECK_FALSE(ClockOffset{}.at(0));
  CHECK_FALSE(ClockOffset{}.to_controller({1, 2}));
  CHECK_FALSE(ClockOffset{}.last_answer_us());
}

TEST_CASE("an exchange bounds the offset by the time each way took") {
  ClockOffset clock;
  RemoteClock{5 * second_us}.exchange(clock, 1000, 300, 700);
  const auto offset = clock.at(1300 + 5 * second_us);
  REQUIRE(offset);
  CHECK(offset->least == 5 * second_us - 700 - 1);
  CHECK(offset->most == 5 * second_us + 300 + 1);
}

TEST_CASE("exchanges are intersected: the quickest of each way counts") {
  const RemoteClock remote{-3 * second_us};
  ClockOffset clock;
  remote.exchange(clock, 10 * second_us, 50, 9000);
  remote.exchange(clock, 10 * second_us + 10000, 8000, 60);
  const auto offset = clock.at(7 * second_us + 18000);
  REQUIRE(offset);
  CHECK(offset->least >= remote.ahead_us - 60 - 3);
  CHECK(offset->most <= remote.ahead_us + 50 + 3);
}

TEST_CASE("what was learnt at one time is widened by 100 us for each second to another") {
  ClockOffset clock;
  RemoteClock{0}.exchange(clock, 0, 100, 100);
  const auto offset = clock.at(10 * second_us + 100);
  CHECK(offset->most == 100 + 1000 + 1);
  CHECK(offset->least == -100 - 1000 - 1);
  CHECK(clock.at(-10 * second_us + 100)->most == 100 + 1000 + 1);
}

TEST_CASE("a span of the node lies on the controller's clock where it can have been") {
  ClockOffset clock;
  RemoteClock{5 * second_us}.exchange(clock, 0, 100, 200);
  const auto span = clock.to_controller({5 * second_us, 5 * second_us + 400});
  REQUIRE(span);
  CHECK(span->least <= 0);
  CHECK(span->least >= -102);
  CHECK(span->most >= 400);
  CHECK(span->most <= 602);
}

TEST_CASE("an answer from before the question is no exchange") {
  ClockOffset clock;
  clock.add({1000, 500, 900}, 1100);
  CHECK_FALSE(clock.at(0));
}

TEST_CASE("an exchange that took no time is one, and what it says is exact but for a rounding") {
  ClockOffset clock;
  clock.add({1000, 1500, 1500}, 1000);
  REQUIRE(clock.at(1500));
  CHECK(clock.at(1500)->least == 499);
  CHECK(clock.at(1500)->most == 501);
}

TEST_CASE("of exchanges that can be true together none is forgotten, however little they share") {
  const RemoteClock remote{0};
  ClockOffset clock;
  remote.exchange(clock, 0, 100, 100);
  // Both say at most what they share: 102, with what 1 us of drift adds to the first.
  clock.add({1000, 1301, 1301}, 1200);
  const auto offset = clock.at(1301);
  REQUIRE(offset);
  CHECK(offset->most <= 102);
  CHECK(clock.to_controller({100, 100}));  // no jump
  clock.add({2000, 2400, 2400}, 2100);
  CHECK_FALSE(clock.to_controller({100, 100}));  // from before what cannot be true with it
  CHECK(clock.at(2400)->least >= 298);
}

TEST_CASE("an exchange is remembered for a minute") {
  ClockOffset clock;
  RemoteClock{0}.exchange(clock, 0, 1, 1);
  RemoteClock{0}.exchange(clock, 60 * second_us - 100'000 + 2, 50'000, 50'000);
  CHECK(clock.at(0)->most <= 3);
  RemoteClock{0}.exchange(clock, 60 * second_us - 100'000 + 3, 50'000, 50'000);
  CHECK(clock.at(0)->most > 50'000);
}

TEST_CASE("after a jump of a clock only what came later is known") {
  ClockOffset clock;
  RemoteClock{0}.exchange(clock, 0, 100, 100);
  RemoteClock{-4 * second_us}.exchange(clock, 10 * second_us, 100, 100);
  CHECK_FALSE(clock.to_controller({5 * second_us, 5 * second_us}));
  const auto span = clock.to_controller({7 * second_us, 7 * second_us});
  REQUIRE(span);
  CHECK(span->least < 11 * second_us);
  CHECK(span->most > 11 * second_us);
}

TEST_CASE("a node lived when it gave its last answer") {
  ClockOffset clock;
  RemoteClock{second_us}.exchange(clock, 5000, 100, 100);
  REQUIRE(clock.last_answer_us());
  CHECK(*clock.last_answer_us() >= 5000 - 1);
  CHECK(*clock.last_answer_us() <= 5100);
}

}  // namespace
}  // namespace muster
