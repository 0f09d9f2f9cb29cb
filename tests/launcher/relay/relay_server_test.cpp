#include "launcher/relay/relay_server.h"

#include <algorithm>
#include <random>

#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

// A relay on this machine; what it starts says that it is attached and sends back what it gets.
struct Served {
  TemporaryFolder folder;
  boost::asio::io_context io;
  std::vector<FromRelay> said;
  std::string bytes;
  std::unique_ptr<RelayServer> server;

  explicit Served(const std::string& agent = "echo MUSTER-ATTACHED; exec cat") {
    serve(fake_agent(folder, "b1", agent).binary);
  }
  void serve(const std::string& binary) {
    server = std::make_unique<RelayServer>(
        io, binary, [this](const FromRelay& message, std::string_view payload) {
          said.push_back(message);
          bytes += payload;
        });
  }
  RelayConnect to_node(std::int64_t ticket) const {
    RelayConnect asked;
    asked.ticket = ticket;
    asked.node.id = NodeId{"n" + std::to_string(ticket)};
    asked.build_id = "b1";
    asked.controller_id = "c1";
    asked.home = (folder.path() / "m").string();
    return asked;
  }

  template <class Message>
  int count() const {
    return static_cast<int>(std::count_if(said.begin(), said.end(), [](const auto& each) {
      return std::holds_alternative<Message>(each);
    }));
  }
};

}  // namespace

TEST_CASE("a relay carries the bytes of the nodes that it reaches") {
  Served relay;
  relay.server->take(relay.to_node(1), "");
  RelayConnect deeper = relay.to_node(2);
  deeper.is_relay = true;
  relay.server->take(deeper, "");
  REQUIRE(drive(relay.io, [&] { return relay.count<RelayConnected>() == 2; }));
  relay.server->take(RelayBytes{1}, "hello ");
  REQUIRE(drive(relay.io, [&] { return relay.bytes == "hello "; }));
  relay.server->take(RelayBytes{2}, "there");
  CHECK(drive(relay.io, [&] { return relay.bytes == "hello there"; }));
  CHECK(relay.count<RelayClosed>() == 0);
}

TEST_CASE("a relay asks a node for its agent, or for a relay, as it was told") {
  Served relay("echo MUSTER-ATTACHED; echo \"$2\"; exec cat");
  RelayConnect deeper = relay.to_node(1);
  deeper.is_relay = GENERATE(false, true);
  relay.server->take(deeper, "");
  CHECK(drive(relay.io, [&] { return !relay.bytes.empty(); }));
  CHECK(relay.bytes == (deeper.is_relay ? "relay\n" : "attach\n"));
}

TEST_CASE("a relay logs in nowhere") {
  Served relay;
  RelayConnect asked = relay.to_node(1);
  asked.node.transport = GENERATE(TransportKind::ssh, TransportKind::openssh);
  relay.server->take(asked, "");
  relay.io.run();
  REQUIRE(relay.count<RelayClosed>() == 1);
  CHECK_THAT(std::get<RelayClosed>(relay.said[0]).failure.message,
             ContainsSubstring("logs in nowhere"));
}

TEST_CASE("a relay says which node it cannot reach and why, and forgets it") {
  Served relay;
  relay.serve("/nonexistent/muster");
  relay.server->take(relay.to_node(1), "");
  relay.server->take(relay.to_node(1), "");
  relay.io.run();
  REQUIRE(relay.said.size() == 1);
  const auto& closed = std::get<RelayClosed>(relay.said[0]);
  CHECK(closed.ticket == 1);
  CHECK(closed.failure.kind == LinkFailureKind::wrong_build);
  CHECK_THAT(closed.failure.message, ContainsSubstring("n1") && ContainsSubstring("/nonexistent"));
  relay.server->take(relay.to_node(1), "");  // a ticket that is over
  relay.io.restart();
  relay.io.run();
  CHECK(relay.count<RelayClosed>() == 2);
}

TEST_CASE("a relay that hears anything in any order answers pings, and connects end once") {
  std::mt19937 random(GENERATE(range(1u, 11u)));
  Served relay;
  relay.serve("/nonexistent/muster");
  int pings = 0;
  for (int step = 0; step < 200; ++step) {
    const auto ticket = static_cast<std::int64_t>(random() % 4);
    const std::int64_t number = std::int64_t{1} << (random() % 63);
    switch (random() % 6) {
      case 0: relay.server->take(relay.to_node(ticket), ""); break;
      case 1: relay.server->take(RelayBytes{ticket}, std::string(random() % 1000, 'x')); break;
      case 2: relay.server->take(RelayRoom{ticket, -number}, ""); break;
      case 3: relay.server->take(RelayHangUp{ticket}, ""); break;
      case 4: relay.server->take(RelayPing{}, ""); ++pings; break;
      default: relay.io.restart(); relay.io.poll();
    }
  }
  CHECK(relay.count<RelayPing>() == pings);
  CHECK(relay.count<RelayConnected>() == 0);
  relay.server.reset();
  relay.io.restart();
  relay.io.run();
}

}  // namespace muster
