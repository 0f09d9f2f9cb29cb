#include "launcher/transport/openssh_transport.h"

#include <boost/asio/io_context.hpp>
#include <iostream>

#include "launcher/transport/transport_selector.h"
#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

TransportSettings selector_settings(const TestCluster& cluster) {
  TransportSettings settings;
  settings.ssh = cluster.settings();
  settings.user_home = cluster.dir().string();
  return settings;
}

}  // namespace

TEST_CASE("the ssh program reaches an agent, too") {
  if (!TestCluster::permitted()) return;
  TestCluster cluster(1);
  TemporaryFolder folder;
  boost::asio::io_context io;
  ToNodes<OpensshTransport> transport(io, cluster.settings(), std::make_shared<PushGate>(io));
  const AgentLaunch launch = fake_agent(folder, "o1");
  auto result = connect_one(io, transport, cluster.nodes()[0], launch);
  INFO(message_of(result));
  REQUIRE(std::holds_alternative<Connected>(result));
  const std::string recorded =
      run_here({"ssh-keygen", "-l", "-f", cluster.settings().own_known_hosts});
  const std::string& contact = std::get<Connected>(result).first_contact;
  REQUIRE(contact.find("SHA256:") != std::string::npos);
  CHECK_THAT(recorded, ContainsSubstring(contact.substr(contact.find("SHA256:"), 50)));
  const auto again = connect_one(io, transport, cluster.nodes()[0], launch);
  REQUIRE(std::holds_alternative<Connected>(again));
  CHECK(std::get<Connected>(again).first_contact.empty());
  std::cout << "ssh program: " << text_of(std::get<Connected>(result).profile) << "\n";
  std::string bytes(20'000'000, 'x');
  for (std::size_t i = 0; i < bytes.size(); i += 4099) bytes[i] = static_cast<char>(i);
  CHECK(echo(io, *std::get<Connected>(result).link, bytes) == bytes);
  CHECK_THAT(read_text(cluster.settings().own_known_hosts), ContainsSubstring("ssh-ed25519"));
}

TEST_CASE("failures of the ssh program are told apart") {
  if (!TestCluster::permitted()) return;
  TestCluster cluster(1);
  TemporaryFolder folder;
  boost::asio::io_context io;
  ToNodes<OpensshTransport> transport(io, cluster.settings(), std::make_shared<PushGate>(io));
  const AgentLaunch launch = fake_agent(folder, "o1");
  NodeAddress node = cluster.nodes()[0];
  node.port = 23;
  CHECK(failed_with(connect_one(io, transport, node, launch), LinkFailureKind::unreachable));
  node = cluster.nodes()[0];
  node.identity_file = (folder.path() / "stranger").string();
  run_here({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", node.identity_file});
  CHECK(failed_with(connect_one(io, transport, node, launch), LinkFailureKind::refused_key));
  node = cluster.nodes()[0];
  std::filesystem::create_directories(
      std::filesystem::path(cluster.settings().own_known_hosts).parent_path());
  const std::string other = read_text(cluster.file("client_key.pub"));
  write_text(cluster.settings().own_known_hosts, node.host + " " + other);
  const auto changed = connect_one(io, transport, node, launch);
  INFO(message_of(changed));
  CHECK(failed_with(changed, LinkFailureKind::changed_host_key));
}

TEST_CASE("an RSA key is left to the ssh program without being asked") {
  if (!TestCluster::permitted()) return;
  TestCluster cluster(1);
  TemporaryFolder folder;
  NodeAddress node = cluster.nodes()[0];
  node.identity_file = (folder.path() / "id_rsa").string();
  run_here({"ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", node.identity_file});
  run_here(
      {"sh", "-c", "cat " + node.identity_file + ".pub >> " + cluster.file("authorized_keys")});
  boost::asio::io_context io;
  const auto transport = make_transport(io, selector_settings(cluster));
  CHECK(message_of(connect_one(io, *transport, node, fake_agent(folder, "o1"))) == "connected");
}

TEST_CASE("the selector takes each node by its own transport") {
  if (!TestCluster::permitted()) return;
  TestCluster cluster(2);
  TemporaryFolder folder;
  boost::asio::io_context io;
  const auto transport = make_transport(io, selector_settings(cluster));
  std::vector<NodeAddress> nodes = cluster.nodes();
  nodes[1].transport = TransportKind::openssh;
  const AgentLaunch launch = fake_agent(folder, "o1");
  for (const auto& result : connect_all(io, *transport, nodes, launch)) {
    CHECK(message_of(result) == "connected");
  }
}

}  // namespace muster
