// libssh2's bytes on their way over a socket, whose other end is the test.
#include "launcher/transport/ssh/session.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

using boost::asio::ip::tcp;

struct Handshake {
  boost::asio::io_context io;
  tcp::acceptor acceptor{io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)};
  tcp::socket host{io};
  std::shared_ptr<SshSession> session = std::make_shared<SshSession>(io);
  int turns = 0;
  int result = LIBSSH2_ERROR_EAGAIN;

  Handshake() {
    session->socket().connect(acceptor.local_endpoint());
    acceptor.accept(host);
    host.non_blocking(true);
    session->on_progress([this] {
      ++turns;
      if (result == LIBSSH2_ERROR_EAGAIN) {
        result = libssh2_session_handshake(session->get(), session->handle());
      }
    });
    session->begin(std::chrono::milliseconds(5000));
  }
  ~Handshake() { session->on_progress(nullptr); }
  // What the host gets, until it has so many bytes of it.
  std::string received(std::size_t least) {
    std::string all;
    CHECK(drive(
        io,
        [&] {
          char bytes[4096];
          boost::system::error_code error;
          all.append(bytes, host.read_some(boost::asio::buffer(bytes), error));
          return all.size() >= least;
        },
        std::chrono::seconds(5)));
    return all;
  }
};

TEST_CASE("what libssh2 writes is sent at once, each time, and nothing is sent twice") {
  Handshake one;
  const std::string banner = one.received(9);
  CHECK(banner.starts_with("SSH-2.0-"));
  CHECK(banner.ends_with("\r\n"));
  boost::asio::write(one.host, boost::asio::buffer(std::string("SSH-2.0-test\r\n")));
  const std::string keys = one.received(6);
  CHECK(keys[5] == 20);  // SSH_MSG_KEXINIT
  CHECK(keys.find("SSH-2.0-") == std::string::npos);
  CHECK(drive(one.io, [&] { return one.session->unsent_bytes() == 0; }, std::chrono::seconds(5)));
  CHECK_FALSE(one.session->is_closed());
}

TEST_CASE("before a host has agreed on methods there are none to tell") {
  Handshake one;
  one.received(9);
  CHECK(one.session->methods().empty());
}

TEST_CASE("a host that closes is told with the reason, and wakes whoever waits") {
  Handshake one;
  one.received(9);
  one.host.close();
  CHECK(drive(one.io, [&] { return one.session->is_closed(); }, std::chrono::seconds(5)));
  CHECK(one.session->close_reason() == "the host closed the connection");
  CHECK(one.result != LIBSSH2_ERROR_EAGAIN);
  const int turns = one.turns;
  one.session->wake();
  one.session->wake();  // one turn for both
  one.io.restart();
  one.io.poll();
  CHECK(one.turns == turns + 1);
  one.session->close("later");
  CHECK(one.session->close_reason() == "the host closed the connection");
}

}  // namespace
}  // namespace muster
