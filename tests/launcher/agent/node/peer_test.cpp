// One connection of the agent: frames in, bytes out, and how it ends.
#include "launcher/agent/node/peer.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "launcher/os/fd.h"
#include "launcher/wire/message_codec.h"
#include "tests/catch.h"

using namespace muster;

namespace {

struct JoinedPeer {
  JoinedPeer() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    far = Fd(ends[1]);
    ::fcntl(far.get(), F_SETFL, O_NONBLOCK);
    using Local = boost::asio::local::stream_protocol;
    peer = std::make_shared<PeerConnection>(Local::socket(io, Local(), ends[0]));
    peer->start({[this](Frame frame) {
                   auto message = decode<ToAgent>(std::move(frame));
                   REQUIRE(message);
                   pings.push_back(std::get<Ping>(message->message).sent_us.value_or(0));
                   if (on_ping) on_ping();
                 },
                 [this] { ++drained; }, [this] { ++closed; }});
  }
  ~JoinedPeer() { peer->close(); }
  void turn() {
    for (int i = 0; i < 10; ++i) {
      io.restart();
      io.poll();
    }
  }
  void say(const std::string& bytes) {
    const ssize_t sent = ::send(far.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    CHECK(sent == static_cast<ssize_t>(bytes.size()));
    turn();
  }
  static std::string a_ping(std::int64_t number) {
    return encode(ToAgent{Ping{number, std::nullopt}});
  }
  // What comes until nothing more does, or the end.
  void hear() {
    std::string piece(64 << 10, '\0');
    for (int empty = 0; empty < 10 && !is_over;) {
      const ssize_t got = ::read(far.get(), piece.data(), piece.size());
      if (got > 0) heard.append(piece, 0, static_cast<std::size_t>(got));
      empty = got > 0 ? 0 : empty + 1;
      is_over = got == 0;
      turn();
    }
  }

  boost::asio::io_context io;
  Fd far;
  std::shared_ptr<PeerConnection> peer;
  std::vector<std::int64_t> pings;
  std::function<void()> on_ping;
  int drained = 0;
  int closed = 0;
  std::string heard;
  bool is_over = false;
};

}  // namespace

TEST_CASE("whole frames are handed on in order, however they come") {
  JoinedPeer one;
  const std::string bytes = JoinedPeer::a_ping(1) + JoinedPeer::a_ping(2) + JoinedPeer::a_ping(3);
  one.say(bytes.substr(0, 7));
  CHECK(one.pings.empty());
  one.say(bytes.substr(7));
  CHECK(one.pings == std::vector<std::int64_t>{1, 2, 3});
  CHECK(one.closed == 0);
}

TEST_CASE("what is written arrives in order, and it is told when all has gone") {
  JoinedPeer one;
  const std::string large(3 << 20, 'x');
  one.peer->write("first ");
  one.peer->write(large);
  one.peer->write(" last");
  CHECK(one.peer->queued_bytes() == large.size() + 11);
  one.turn();
  CHECK(one.drained == 0);
  CHECK(one.peer->queued_bytes() > 0);
  one.hear();
  CHECK(one.drained == 1);
  CHECK(one.peer->queued_bytes() == 0);
  CHECK((one.heard == "first " + large + " last"));
  CHECK_FALSE(one.is_over);
}

TEST_CASE("a connection that closes once all is written loses nothing of it, and hears no more") {
  JoinedPeer one;
  const std::string large(3 << 20, 'x');
  one.peer->write(large);
  one.peer->close_when_written();
  one.say(JoinedPeer::a_ping(1));
  one.hear();
  CHECK(one.is_over);
  CHECK((one.heard == large));
  CHECK(one.pings.empty());
  CHECK(one.closed == 0);  // its owner did that
}

TEST_CASE("a connection with nothing to write is closed at once") {
  JoinedPeer one;
  one.on_ping = [&] { one.peer->close_when_written(); };
  one.say(JoinedPeer::a_ping(1) + JoinedPeer::a_ping(2));
  one.hear();
  CHECK(one.is_over);
  CHECK(one.pings == std::vector<std::int64_t>{1});
  one.peer->write("too late");
  CHECK(one.peer->queued_bytes() == 0);
}

TEST_CASE("the end of a connection is told once, by whoever was not its cause") {
  JoinedPeer one;
  SECTION("the other side hangs up") { one.far = Fd(); }
  SECTION("it says what is no frame") {
    one.say(std::string(64, '\xff'));
    one.hear();
    CHECK(one.is_over);
  }
  one.turn();
  CHECK(one.closed == 1);
  one.peer->close();
  one.turn();
  CHECK(one.closed == 1);
}

TEST_CASE("a connection is its user's, or root's") {
  JoinedPeer one;
  CHECK(one.peer->is_of_user(::geteuid()));
  CHECK(one.peer->is_of_user(::geteuid() + 1) == (::geteuid() == 0));
}
