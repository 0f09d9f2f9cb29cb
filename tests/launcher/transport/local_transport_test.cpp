#include "launcher/transport/local.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

NodeAddress local_node(const std::string& name) {
  NodeAddress node;
  node.id = NodeId{name};
  return node;
}

struct Machine {
  TemporaryFolder folder;
  boost::asio::io_context io;
  LocalTransport transport{io, folder.path().string()};
  AgentLaunch launch{MUSTER_FAKE_AGENT, "b1", "c1", "~/m", {}, {}, {}};
  ConnectResult connect(const std::string& node) {
    return connect_one(io, transport, local_node(node), launch);
  }
};

void leave_stale_socket(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "agent.sock").string().copy(address.sun_path, sizeof address.sun_path - 1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  ::close(listener);
}

}  // namespace

TEST_CASE("an agent of this machine is started once and then found") {
  Machine machine;
  auto first = machine.connect("n1");
  INFO(message_of(first));
  REQUIRE(std::holds_alternative<Connected>(first));
  CHECK(echo(machine.io, *std::get<Connected>(first).link, "hello") == "hello");
  first = LinkFailure{};
  machine.launch.binary = "/nonexistent";
  auto second = machine.connect("n1");
  REQUIRE(std::holds_alternative<Connected>(second));
  CHECK(echo(machine.io, *std::get<Connected>(second).link, "again") == "again");
}

TEST_CASE("sixteen pretend nodes start together") {
  Machine machine;
  std::vector<NodeAddress> nodes;
  for (int i = 0; i < 16; ++i) nodes.push_back(local_node("n" + std::to_string(i)));
  for (const auto& result : connect_all(machine.io, machine.transport, nodes, machine.launch)) {
    CHECK(message_of(result) == "connected");
  }
}

TEST_CASE("a stale socket and a path longer than a socket's do not matter") {
  Machine machine;
  leave_stale_socket(machine.folder.path() / "m/run/c1/n1");
  CHECK(message_of(machine.connect("n1")) == "connected");
  machine.launch.home = (machine.folder.path() / std::string(150, 'x')).string();
  CHECK(message_of(machine.connect("n1")) == "connected");
}

TEST_CASE("an agent that cannot start says why") {
  Machine machine;
  const auto broken = machine.connect("broken");
  CHECK(failed_with(broken, LinkFailureKind::shell));
  CHECK_THAT(message_of(broken), ContainsSubstring("no room for the spool"));
  CHECK_THAT(message_of(machine.connect("a/b")), ContainsSubstring("no name for a folder"));
  machine.launch.binary = "/nonexistent";
  CHECK_THAT(message_of(machine.connect("n1")), ContainsSubstring("cannot start /nonexistent"));
}

TEST_CASE("a relay of this machine is a child, and its link leads to it") {
  Machine machine;
  machine.launch.binary =
      fake_agent(machine.folder, "b1", "echo MUSTER-ATTACHED; echo \"$2\"; exec cat").binary;
  machine.launch.service = AgentService::relay;
  auto relay = machine.connect("n1");
  INFO(message_of(relay));
  REQUIRE(std::holds_alternative<Connected>(relay));
  CHECK(echo(machine.io, *std::get<Connected>(relay).link, "relay").starts_with("relay"));
}

TEST_CASE("a silent agent is given up in time") {
  Machine machine;
  LocalTransport hasty(machine.io, machine.folder.path().string(), Milliseconds(200));
  const auto silent = connect_one(machine.io, hasty, local_node("silent"), machine.launch);
  CHECK_THAT(message_of(silent), ContainsSubstring("did not start within 200 ms"));
}

TEST_CASE("a local link carries a hundred megabytes and tells when it ends") {
  Machine machine;
  auto result = machine.connect("n1");
  REQUIRE(std::holds_alternative<Connected>(result));
  std::string bytes(100'000'000, 'x');
  for (std::size_t i = 0; i < bytes.size(); i += 4099) bytes[i] = static_cast<char>(i);
  CHECK(echo(machine.io, *std::get<Connected>(result).link, bytes) == bytes);
}

}  // namespace muster
