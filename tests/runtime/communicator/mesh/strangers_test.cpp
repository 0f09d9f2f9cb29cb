// Who has no part in an attempt and can reach the ports of its ranks: joins nothing, hears nothing,
// holds up nobody.

#include <arpa/inet.h>
#include <netinet/in.h>

#include <atomic>
#include <thread>

#include "runtime/communicator/mesh/rendezvous.h"
#include "tests/runtime/free_port.h"
#include "tests/runtime/process_world.h"

using namespace muster;
using namespace muster::test;

namespace {

using std::chrono::milliseconds;

const RankPart count_all = [](Communicator& ranks, const auto&) -> std::string {
  return std::to_string(ranks.gather_texts("here").size()) + " together";
};

ProcessWorld::Settings with_secret(int limit_ms = 20000) {
  return {{std::chrono::seconds(60)}, milliseconds(limit_ms), "the attempt's secret"};
}

// From an address of this host's choice, as from another host; blocking.
Descriptor connect_from(const char* address, std::uint16_t port) {
  const auto loopback = [](const char* text, std::uint16_t number) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(number);
    ::inet_pton(AF_INET, text, &name.sin_addr);
    return name;
  };
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in from = loopback(address, 0);
  const sockaddr_in to = loopback("127.0.0.1", port);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return {};
  return socket;
}

Descriptor connect_when_there(std::uint16_t port) {
  for (int i = 0; i < 1000; ++i) {
    if (auto socket = connect_from("127.0.0.2", port)) return socket;
    ::usleep(10'000);
  }
  FAIL("rank 0 never listened");
  return {};
}

// All that comes until the other end closes.
std::string heard_from(const Descriptor& socket) {
  std::string heard;
  char part[4096];
  ssize_t got = 0;
  while ((got = ::recv(socket.get(), part, sizeof part, 0)) > 0) {
    heard.append(part, static_cast<std::size_t>(got));
  }
  return heard;
}

// A listener with its port, and one who has the secret and calls it.
struct Door {
  Descriptor listener = listen_tcp("127.0.0.1", 0);
  std::uint16_t port = port_of(listener);
  std::string place = std::to_string(port);
};

void hear_all(Strangers& strangers, const Door& door, std::vector<MessageStream>& proven) {
  strangers.let_in(door.listener, door.place);
  for (auto& one : strangers.take_proven()) proven.push_back(std::move(one));
}

}  // namespace

TEST_CASE("a rank without the secret joins nothing, and the right one still does") {
  ProcessWorld world(2, with_secret());
  world.start_rank({"job", 1, 0, 2}, count_all);
  for (const std::string secret : {"another one", ""}) {
    world.start_process([&](int) -> std::string {
      try {
        const MeetingPlace place{"127.0.0.1", world.port(), milliseconds(1500), {}, secret};
        make_mesh_communicator({"job", 1, 1, 2}, place, {});
        return "joined";
      } catch (const MeetingFailed& failed) {
        return failed.what();
      }
    });
  }
  for (const std::size_t stranger : {1, 2}) {
    CHECK_THAT(world.result(stranger), ContainsSubstring("rank 0 did not answer in time: ") &&
                                           ContainsSubstring(not_of_the_attempt));
  }
  world.start_rank({"job", 1, 1, 2}, count_all);
  CHECK(world.result(0) == "2 together");
  CHECK(world.result(3) == "2 together");
}

TEST_CASE("whatever a stranger says, he hears one nonce at most, and then that he is alone") {
  ProcessWorld world(2, with_secret());
  world.start_rank({"job", 1, 0, 2}, count_all);
  const Handshake knows_the_form(Handshake::Side::caller, "guessed", std::to_string(world.port()),
                                 std::string(nonce_bytes, 'n'));
  Seal seal("guessed");
  const std::string hello = format_message(RankHello{{"job", 1, 1, 2}, {}}, seal);
  const std::string ends[] = {std::string(32, 'p'), hello, std::string(100'000, 'x')};
  for (const std::string& end : ends) {
    const Descriptor socket = connect_when_there(world.port());
    send_all(socket, knows_the_form.opening() + end, Deadline(milliseconds(5000)));
    const std::string heard = heard_from(socket);
    CHECK(heard.size() <= knows_the_form.opening().size());
  }
  const Descriptor browser = connect_when_there(world.port());
  send_all(browser, "GET / HTTP/1.1\r\nHost: " + std::string(100, 'h'), Deadline());
  CHECK(heard_from(browser).empty());
  world.start_rank({"job", 1, 1, 2}, count_all);
  CHECK(world.result(0) == "2 together");
}

TEST_CASE("hundreds of silent strangers hold up no rank") {
  ProcessWorld world(3, with_secret());
  world.start_rank({"job", 1, 0, 3}, count_all);
  std::vector<Descriptor> silent;
  for (int i = 0; i < 400; ++i) silent.push_back(connect_when_there(world.port()));
  for (const std::uint64_t rank : {1, 2}) world.start_rank({"job", 1, rank, 3}, count_all);
  for (const std::size_t rank : {0, 1, 2}) CHECK(world.result(rank) == "3 together");
}

TEST_CASE("where strangers are too many, those go of the address that most came from") {
  const Door door;
  Strangers strangers("secret", 3);
  std::vector<MessageStream> proven;
  // Comes first, and says nothing for long.
  const Descriptor early = connect_from("127.0.0.1", door.port);
  std::vector<Descriptor> flood;
  for (int i = 0; i < 200; ++i) {
    flood.push_back(connect_from("127.0.0.2", door.port));
    hear_all(strangers, door, proven);
    CHECK(strangers.count() <= 3 + Strangers::spare_places);
  }
  CHECK(strangers.count() == 3 + Strangers::spare_places);
  std::thread opener([&] {
    while (proven.empty()) hear_all(strangers, door, proven);
  });
  Descriptor own(::dup(early.get()));
  std::string why;
  const Patience patience(milliseconds(10'000), {});
  CHECK(introduce(std::move(own), "secret", door.place, patience, why));
  opener.join();
  CHECK(proven.size() == 1);
  CHECK(strangers.count() == 2 + Strangers::spare_places);
}

TEST_CASE("a stranger who says too little is let go in time, one who leaves at once") {
  const Door door;
  std::vector<MessageStream> proven;
  Strangers strangers("secret", 1, milliseconds(1));
  const Descriptor slow = connect_from("127.0.0.1", door.port);
  send_all(slow, "MRTM", Deadline(milliseconds(1000)));
  hear_all(strangers, door, proven);
  ::usleep(2'000);  // past the limit, however long it takes
  hear_all(strangers, door, proven);
  CHECK(strangers.count() == 0);
  CHECK(heard_from(slow).empty());
  Strangers patient("secret", 1);
  { const Descriptor gone = connect_from("127.0.0.1", door.port); }
  hear_all(patient, door, proven);
  CHECK(patient.count() == 0);
  CHECK(proven.empty());
}

TEST_CASE("ranks that have a secret meet elsewhere when a stranger has their port") {
  enum class Squatter { only_bound, silent, closes, answers };
  for (const Squatter squatter :
       {Squatter::only_bound, Squatter::silent, Squatter::closes, Squatter::answers}) {
    INFO("squatter " << static_cast<int>(squatter));
    ProcessWorld world(3, with_secret(30000));
    Descriptor taken = listen_tcp("127.0.0.1", world.port());
    if (squatter == Squatter::only_bound) {
      taken = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in name{};
      name.sin_family = AF_INET;
      name.sin_port = htons(world.port());
      name.sin_addr.s_addr = htonl(INADDR_ANY);
      REQUIRE(::bind(taken.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
    }
    // Before there is a thread: what is forked beside one may wait for its locks for ever.
    world.start(count_all);
    std::atomic<bool> is_over = false;
    std::thread answering([&] {
      std::vector<Descriptor> kept;
      while (!is_over) {
        ::usleep(5'000);
        if (squatter == Squatter::silent || squatter == Squatter::only_bound) continue;
        auto caller = accept_one(taken);
        if (!caller || squatter == Squatter::closes) continue;
        const Handshake other(Handshake::Side::opener, "guessed", "",
                              std::string(nonce_bytes, 'n'));
        send_all(caller->socket, other.opening() + std::string(32, 'p'), Deadline());
        kept.push_back(std::move(caller->socket));
      }
    });
    for (std::size_t rank = 0; rank < 3; ++rank) CHECK(world.result(rank) == "3 together");
    is_over = true;
    answering.join();
  }
}

TEST_CASE("where else ranks meet follows from the secret alone, and lies near") {
  const MeetingPlace place{"h", 23456, {}, {}, "secret"};
  const auto ports = meeting_ports(place);
  CHECK(ports == meeting_ports(place));
  CHECK(ports.size() == 5);
  CHECK(ports.front() == 23456);
  for (const std::uint16_t port : ports) CHECK(port / 1000 == 23);
  CHECK(ports != meeting_ports({"h", 23456, {}, {}, "another"}));
  CHECK(meeting_ports({"h", 23456, {}, {}, ""}) == std::vector<std::uint16_t>{23456});
  for (const std::uint16_t low : {1, 999, 65535}) {
    for (const std::uint16_t port : meeting_ports({"h", low, {}, {}, "secret"})) {
      CHECK((port == low || port >= 1024));
    }
  }
}
