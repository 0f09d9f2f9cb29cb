// All-reduces of two nodes, as far as no GPU is needed: how the halves meet, what they say to each
// other, and how large and how many all-reduces they come to. The serving half is in a thread.
#include <poll.h>

#include <future>
#include <random>

#include "health/active/allreduce_meeting.h"
#include "health/active/allreduce_rounds.h"
#include "health/active/probe_door.h"
#include "tests/catch.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr const char* token = "a-token-of-this-run";
constexpr std::uint64_t gib = 1ull << 30;

ProbeMoment in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

AllreduceId an_id() {
  AllreduceId id{};
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<unsigned char>(7 * i + 200);
  return id;
}

AllreduceNode a_node(int gpus = 8, std::uint64_t bytes = 16 * gib) {
  return {22809, gpus, bytes};
}

// What the serving half did with its partner.
using Then = std::function<Status(AllreduceMeeting&)>;

class Serving {
 public:
  explicit Serving(
      Then then = [](AllreduceMeeting&) { return Done{}; }, AllreduceNode own = a_node(),
      Result<AllreduceId> id = an_id(), std::chrono::milliseconds wait = 20s) {
    std::promise<std::uint16_t> listening;
    auto port = listening.get_future();
    AllreduceServing options;
    options.address = "127.0.0.1";
    options.token = token;
    options.wait = wait;
    options.grace = 5s;
    options.listening = [&](std::uint16_t at) { listening.set_value(at); };
    outcome_ = std::async(std::launch::async, [options, then, own, id]() -> Status {
      auto met = AllreduceMeeting::serve(options, own, [&](const std::string&) { return id; });
      if (!met) return met.error();
      return then(*met);
    });
    port_ = port.get();
  }
  std::uint16_t port() const { return port_; }
  Status outcome() { return outcome_.get(); }

 private:
  std::uint16_t port_ = 0;
  std::future<Status> outcome_;
};

AllreduceConnecting connecting(std::uint16_t port) {
  AllreduceConnecting options;
  options.host = "127.0.0.1";
  options.port = port;
  options.token = token;
  options.wait = 10s;
  options.grace = 5s;
  options.time = 1s;
  return options;
}

// A serving half that says this to whoever comes.
class Saying {
 public:
  explicit Saying(const std::string& words) {
    auto listener = listen_on("127.0.0.1", 0);
    REQUIRE(listener);
    port_ = port_of(*listener);
    done_ = std::async(std::launch::async, [words, listener = std::move(*listener)]() mutable {
      auto guest = accept_from(listener, in(10s));
      if (!guest || !guest->is_open()) return;
      (void)guest->receive_line(in(5s));
      (void)guest->send_all(words, in(5s));
    });
  }
  std::uint16_t port() const { return port_; }

 private:
  std::uint16_t port_ = 0;
  std::future<void> done_;
};

std::string why_of(const Status& status) {
  return status ? "" : status.error().message;
}

const std::string hex_of_zeros(256, '0');

}  // namespace

TEST_CASE("two nodes meet: one id, the ranks of both, and what both have room for") {
  std::promise<int> first;
  Serving server([&](AllreduceMeeting& met) -> Status {
    first.set_value(met.first_rank());
    CHECK(met.ranks() == 12);
    CHECK(met.bytes() == 2 * gib);
    CHECK(met.time() == 1s);
    return Done{};
  });
  auto met = AllreduceMeeting::connect(connecting(server.port()), a_node(4, 2 * gib));
  REQUIRE(met);
  CHECK(met->id() == an_id());
  CHECK(met->ranks() == 12);
  CHECK(met->first_rank() == 8);
  CHECK(met->bytes() == 2 * gib);
  CHECK(met->interface() == "lo");
  CHECK(first.get_future().get() == 0);
  CHECK(server.outcome());
}

TEST_CASE("after each step both know the larger number of the two") {
  Serving server([](AllreduceMeeting& met) -> Status {
    const auto open = met.agree("open", 0, in(5s));
    const auto trial = met.agree("trial", 700, in(5s));
    if (!open || !trial) return Error{"no agreement"};
    CHECK(*trial == 900);
    CHECK_FALSE(met.trouble());
    const auto round = met.agree("round", 5'000'000'000, in(5s));
    CHECK(*round == 5'000'000'000);
    return Done{};
  });
  auto met = AllreduceMeeting::connect(connecting(server.port()), a_node());
  REQUIRE(met);
  CHECK(*met->agree("open", 0, in(5s)) == 0);
  CHECK(*met->agree("trial", 900, in(5s)) == 900);
  CHECK(*met->agree("round", 4, in(5s)) == 5'000'000'000);
  CHECK(why_of(server.outcome()).empty());
}

TEST_CASE("who does not know the token gets no id, and the partner is served all the same") {
  Serving server;
  AllreduceConnecting stranger = connecting(server.port());
  for (const char* wrong : {"another-token-here!", "a-token-of-this-ru", "a-token-of-this-run2"}) {
    stranger.token = wrong;
    const auto met = AllreduceMeeting::connect(stranger, a_node());
    REQUIRE_FALSE(met);
    CHECK_THAT(met.error().message, ContainsSubstring("another token"));
  }
  CHECK(AllreduceMeeting::connect(connecting(server.port()), a_node()));
  CHECK(server.outcome());
}

TEST_CASE("what a partner wishes has limits, and it is told what is wrong") {
  for (const char* wish :
       {"", "begin 1 1", "allreduce", "allreduce 22809 0 16777216 1000",
        "allreduce 22809 65 16777216 1000", "allreduce 22809 8 1048575 1000",
        "allreduce 22809 8 99999999999999 1000", "allreduce 22809 8 16777216 0",
        "allreduce 22809 8 16777216 120001", "allreduce -1 8 16777216 1000",
        "allreduce 22809 8x 16777216 1000", "allreduce 22809 8 16777216 1000 more"}) {
    CAPTURE(wish);
    Serving server;
    auto socket = greet_probe({"127.0.0.1", server.port(), token}, wish, in(5s));
    REQUIRE(socket);
    const auto answer = socket->receive_line(in(5s));
    REQUIRE(answer);
    CHECK(*answer == "failed the partner does not begin as it should");
    CHECK_FALSE(server.outcome());
  }
}

TEST_CASE("two versions of NCCL do not meet, and both nodes say so") {
  Serving server;
  AllreduceNode old = a_node();
  old.nccl_version = 22705;
  const auto met = AllreduceMeeting::connect(connecting(server.port()), old);
  REQUIRE_FALSE(met);
  CHECK_THAT(met.error().message, ContainsSubstring("22809 on one node and of 22705"));
  CHECK_THAT(why_of(server.outcome()), ContainsSubstring("22809 on one node and of 22705"));
}

TEST_CASE("a node that can make no id tells its partner why") {
  Serving server([](AllreduceMeeting&) { return Done{}; }, a_node(), Error{"no\nsocket\x1b"});
  const auto met = AllreduceMeeting::connect(connecting(server.port()), a_node());
  REQUIRE_FALSE(met);
  CHECK(met.error().message == "the other node: no socket ");
  CHECK_FALSE(server.outcome());
}

TEST_CASE("an answer that is none ends the meeting") {
  const std::string numbers = " 8 16777216\n";
  for (const std::string& words :
       {std::string(""), std::string("\n"), std::string("id\n"), std::string("id 00 8 16777216\n"),
        "id " + hex_of_zeros.substr(1) + "g" + numbers, "id " + hex_of_zeros + "00" + numbers,
        "id " + hex_of_zeros + " 0 16777216\n", "id " + hex_of_zeros + " 65 16777216\n",
        "id " + hex_of_zeros + " 8 1\n", "id " + hex_of_zeros + " 8\n",
        "id " + hex_of_zeros + " 8 16777216", "ID " + hex_of_zeros + numbers,
        std::string(5000, '0') + "\n", std::string("failed \x01\x02 it burns\n")}) {
    CAPTURE(words);
    Saying server(words);
    CHECK_FALSE(AllreduceMeeting::connect(connecting(server.port()), a_node()));
  }
  Saying right("id " + hex_of_zeros + numbers);
  CHECK(AllreduceMeeting::connect(connecting(right.port()), a_node()));
}

TEST_CASE("whatever bytes come instead of an answer, nothing breaks") {
  std::mt19937 random(20'261'123);
  for (int round = 0; round < 200; ++round) {
    std::string words = "id " + hex_of_zeros + " 8 16777216\n";
    const int changes = 1 + static_cast<int>(random() % 8);
    for (int i = 0; i < changes; ++i) words[random() % words.size()] = static_cast<char>(random());
    Saying server(words);
    AllreduceConnecting options = connecting(server.port());
    options.grace = 200ms;
    const auto met = AllreduceMeeting::connect(options, a_node());
    if (!met) continue;
    CHECK(met->ranks() <= 8 + allreduce_gpus_max);
    CHECK(met->bytes() >= allreduce_bytes_least);
  }
}

TEST_CASE("a partner that fails tells why, also while this node is at work") {
  Serving server([](AllreduceMeeting& met) -> Status {
    const auto open = met.agree("open", 0, in(5s));
    met.fail("cudaMalloc: out of memory");
    return Done{};
  });
  auto met = AllreduceMeeting::connect(connecting(server.port()), a_node());
  REQUIRE(met);
  REQUIRE(met->agree("open", 0, in(5s)));
  REQUIRE(server.outcome());
  const auto until = in(5s);
  std::optional<std::string> why;
  while (!why && std::chrono::steady_clock::now() < until) why = met->trouble();
  CHECK(why == "the other node: cudaMalloc: out of memory");
}

TEST_CASE("a partner that failed is heard at the next step as well") {
  Serving server([](AllreduceMeeting& met) -> Status {
    met.fail("cudaMalloc: out of memory");
    return Done{};
  });
  auto met = AllreduceMeeting::connect(connecting(server.port()), a_node());
  REQUIRE(met);
  REQUIRE(server.outcome());
  const auto open = met->agree("open", 0, in(5s));
  REQUIRE_FALSE(open);
  CHECK_THAT(open.error().message, ContainsSubstring("out of memory"));
}

TEST_CASE("a partner that goes away without a word is missed, at work and at a step") {
  Serving server;
  auto met = AllreduceMeeting::connect(connecting(server.port()), a_node());
  REQUIRE(met);
  REQUIRE(server.outcome());
  const auto until = in(5s);
  std::optional<std::string> why;
  while (!why && std::chrono::steady_clock::now() < until) why = met->trouble();
  CHECK(why == "the other node is gone");
  CHECK_FALSE(met->agree("open", 0, in(5s)));
}

TEST_CASE("a partner that stands still is no trouble, until the step's time is over") {
  std::promise<void> over;
  auto waits = over.get_future();
  Serving server([&](AllreduceMeeting&) -> Status {
    waits.wait();
    return Done{};
  });
  auto met = AllreduceMeeting::connect(connecting(server.port()), a_node());
  REQUIRE(met);
  CHECK_FALSE(met->trouble());
  const auto open = met->agree("open", 0, in(100ms));
  over.set_value();
  REQUIRE_FALSE(open);
  CHECK_THAT(open.error().message, ContainsSubstring("no answer in time"));
}

TEST_CASE("two halves that are not at the same step do not go on") {
  Serving server([](AllreduceMeeting& met) -> Status {
    const auto trial = met.agree("trial", 5, in(5s));
    return trial ? Status(Done{}) : Status(trial.error());
  });
  auto met = AllreduceMeeting::connect(connecting(server.port()), a_node());
  REQUIRE(met);
  const auto open = met->agree("open", 5, in(5s));
  REQUIRE_FALSE(open);
  CHECK_THAT(open.error().message, ContainsSubstring("said something else: trial 5"));
  CHECK_FALSE(server.outcome());
}

TEST_CASE("nobody comes, nobody listens, nobody answers: each ends in time") {
  Serving lonely([](AllreduceMeeting&) { return Done{}; }, a_node(), an_id(), 100ms);
  CHECK_THAT(why_of(lonely.outcome()), ContainsSubstring("nobody with the token came in time"));

  auto listener = listen_on("127.0.0.1", 0);
  REQUIRE(listener);
  AllreduceConnecting options = connecting(port_of(*listener));
  options.grace = 100ms;
  const auto silent = AllreduceMeeting::connect(options, a_node());
  REQUIRE_FALSE(silent);
  CHECK_THAT(silent.error().message, ContainsSubstring("no answer in time"));

  *listener = ProbeSocket();
  options.wait = 200ms;
  const auto nobody = AllreduceMeeting::connect(options, a_node());
  REQUIRE_FALSE(nobody);
  CHECK_THAT(nobody.error().message, ContainsSubstring("cannot reach 127.0.0.1"));
}

TEST_CASE("all-reduces are as large as memory and time allow, and as many as fit") {
  const std::uint64_t trial = allreduce_trial_bytes;
  // 300 GB/s of bus bandwidth on 16 ranks: 64 MiB in 0.42 ms, 16 GiB in 107 ms.
  const auto fast = allreduce_rounds(16 * gib, trial, 420us, 10s);
  CHECK(fast.bytes == 16 * gib);
  CHECK(fast.count == 93);
  // A GB/s of Ethernet: ten seconds are five of 2 GiB.
  const auto slow = allreduce_rounds(16 * gib, trial, 64ms, 10s);
  CHECK(slow.bytes == 2000ull << 20);
  CHECK(slow.count == 5);
  // Slower than one in two seconds: the trial's size, five times.
  const auto slowest = allreduce_rounds(16 * gib, trial, 30s, 10s);
  CHECK(slowest.bytes == trial);
  CHECK(slowest.count == 5);
  // Little memory.
  const auto small = allreduce_rounds(1 << 20, 1 << 20, 1ns, 10s);
  CHECK(small.bytes == 1 << 20);
  CHECK(small.count == allreduce_rounds_most);
  CHECK(allreduce_rounds(gib, trial, 0ns, 10s).bytes == gib);
}

TEST_CASE("bus bandwidth is what each link carries") {
  CHECK(allreduce_bus_gb_per_s(2, 1'000'000'000, 1s) == 1);
  CHECK(allreduce_bus_gb_per_s(16, 16'000'000'000, 100ms) == 300);
}
