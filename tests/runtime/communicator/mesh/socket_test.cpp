// Sockets between ranks, and how long is waited at them.
#include "runtime/communicator/mesh/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tests/catch.h"

using namespace muster;

namespace {

using std::chrono::milliseconds;

Caller accepted(const Descriptor& door) {
  std::vector<pollfd> watched{{door.get(), POLLIN, 0}};
  REQUIRE(poll_until(watched, Deadline(milliseconds(10000))));
  auto caller = accept_one(door);
  REQUIRE(caller);
  return std::move(*caller);
}

Descriptor connected_to(const Descriptor& door) {
  std::string why;
  auto socket = try_connect_tcp("127.0.0.1", port_of(door), {milliseconds(10000), {}}, why);
  INFO(why);
  REQUIRE(socket);
  return std::move(*socket);
}

bool sends_at_once(const Descriptor& socket) {
  int is_on = 0;
  socklen_t size = sizeof is_on;
  REQUIRE(::getsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &is_on, &size) == 0);
  return is_on != 0;
}

}  // namespace

TEST_CASE("a deadline passes at its time, and one of no time never does") {
  CHECK_FALSE(Deadline().passed());
  CHECK_FALSE(Deadline(milliseconds(0)).passed());
  CHECK_FALSE(Deadline(std::chrono::hours(1)).passed());
  const Deadline soon(milliseconds(1));
  std::vector<pollfd> nothing;
  CHECK_FALSE(poll_until(nothing, soon));
  CHECK(soon.passed());
  CHECK(soon.poll_ms(7) == 0);
  CHECK(Deadline().poll_ms(7) == 7);
  CHECK(Deadline(std::chrono::hours(1)).poll_ms(7) == 7);
  CHECK(Deadline(milliseconds(10000)).poll_ms(60000) <= 10000);
}

TEST_CASE("of two deadlines the earlier one counts, and one that never comes is the later one") {
  const Deadline never, late(std::chrono::hours(2)), soon(milliseconds(1));
  std::vector<pollfd> nothing;
  CHECK_FALSE(poll_until(nothing, soon));
  for (const Deadline& other : {never, late}) {
    CHECK(soon.or_earlier(other).passed());
    CHECK(other.or_earlier(soon).passed());
  }
  CHECK_FALSE(never.or_earlier(late).passed());
  CHECK(never.or_earlier(late).poll_ms(1 << 30) < 1 << 30);
  CHECK(late.or_earlier(never).poll_ms(1 << 30) < 1 << 30);
  CHECK(never.or_earlier(never).poll_ms(1 << 30) == 1 << 30);
}

TEST_CASE("patience ends with its deadline, or when it makes no sense any more") {
  std::vector<pollfd> nothing;
  CHECK_FALSE(Patience(milliseconds(1), {}).wait_for(nothing));
  CHECK_FALSE(Patience(milliseconds(1), [] { return false; }).wait_for(nothing));
  CHECK_FALSE(Patience(std::chrono::hours(1), {}).at_most(milliseconds(1)).wait_for(nothing));
  CHECK_FALSE(Patience(milliseconds(1), {}).at_most(std::chrono::hours(1)).wait_for(nothing));
  const Patience over(std::chrono::hours(1), [] { return true; });
  CHECK_THROWS_AS(over.wait_for(nothing), SocketError);
  CHECK_THROWS_AS(over.check(), SocketError);
  CHECK_NOTHROW(Patience(std::chrono::hours(1), [] { return false; }).check());
  CHECK_NOTHROW(Patience(std::chrono::hours(1), {}).check());
}

TEST_CASE("both ends of a connection send small messages at once, and know each other's address") {
  const Descriptor door = listen_tcp("127.0.0.1", 0);
  CHECK(family_of(door) == AF_INET);
  CHECK_FALSE(accept_one(door));
  const Descriptor near = connected_to(door);
  const Caller far = accepted(door);
  CHECK(sends_at_once(near));
  CHECK(sends_at_once(far.socket));
  CHECK(far.address == "127.0.0.1");
  CHECK(peer_address(near) == "127.0.0.1");
  CHECK(port_of(far.socket) == port_of(door));
}

TEST_CASE("where nobody listens a connection is refused with the address, and not waited for") {
  std::uint16_t port = 0;
  {
    const Descriptor closed = listen_tcp("127.0.0.1", 0);
    port = port_of(closed);
  }
  std::string why;
  CHECK_FALSE(try_connect_tcp("127.0.0.1", port, {milliseconds(10000), {}}, why));
  CHECK_THAT(why, ContainsSubstring("127.0.0.1:" + std::to_string(port) + ": "));
}

TEST_CASE("what is sent arrives whole, and who has gone is told by a word, not by a signal") {
  const Descriptor door = listen_tcp("127.0.0.1", 0);
  Descriptor near = connected_to(door);
  std::optional<Caller> far = accepted(door);
  const std::string words(100'000, 'w');
  REQUIRE(send_all(near, words, Deadline(milliseconds(10000))));
  MessageStream stream(std::move(far->socket), {"a", "b"});
  while (stream.rest().size() < words.size()) {
    std::vector<pollfd> watched{{stream.socket().get(), POLLIN, 0}};
    REQUIRE(poll_until(watched, Deadline(milliseconds(10000))));
    REQUIRE(stream.fill());
  }
  CHECK(stream.rest() == words);
  CHECK(stream.fill());  // nothing more has come, and nobody has gone
  near = Descriptor();
  std::vector<pollfd> watched{{stream.socket().get(), POLLIN, 0}};
  REQUIRE(poll_until(watched, Deadline(milliseconds(10000))));
  CHECK_FALSE(stream.fill());
  // The first may still go, into nothing; soon none does.
  bool is_gone = false;
  for (int i = 0; i < 1000 && !is_gone; ++i) {
    is_gone = !send_all(stream.socket(), words, Deadline(milliseconds(10000)));
  }
  CHECK(is_gone);
}

TEST_CASE("who does not read is waited for until the deadline") {
  const Descriptor door = listen_tcp("127.0.0.1", 0);
  const Descriptor near = connected_to(door);
  const Caller far = accepted(door);
  const std::string words(64 << 20, 'w');
  CHECK_FALSE(send_all(near, words, Deadline(milliseconds(20))));
}
