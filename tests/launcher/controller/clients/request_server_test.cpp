// The socket that the command line speaks to.
#include "launcher/controller/clients/server.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "tests/catch.h"

using namespace muster;

namespace {

using Descriptors = std::set<int>;

// What a program that is started now would have.
Descriptors inherited() {
  Descriptors found;
  for (int fd = 0; fd < 256; ++fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) found.insert(fd);
  }
  return found;
}

}  // namespace

TEST_CASE("no program that the controller starts has its socket or those of its clients") {
  std::string directory = "/tmp/muster-request-server-test.XXXXXX";
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  const Descriptors before = inherited();
  boost::asio::io_context io;
  int sessions_ended = 0;
  RequestServer server(io, {}, [&](const std::shared_ptr<Session>&) { ++sessions_ended; });
  REQUIRE(server.listen(directory + "/controller.sock"));
  CHECK(inherited() == before);
  {
    boost::asio::local::stream_protocol::socket client(io);
    client.connect(directory + "/controller.sock");
    ::fcntl(client.native_handle(), F_SETFD, FD_CLOEXEC);
    while (server.sessions() == 0) io.run_one();
    CHECK(inherited() == before);
  }
  while (sessions_ended == 0) io.run_one();
  std::filesystem::remove_all(directory);
}
