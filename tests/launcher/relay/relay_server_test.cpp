#include "launcher/relay/relay_server.h"

#include <algorithm>
#include <random>

#include "tests/catch.h"

namespace muster {
namespace {

struct Served {
  boost::asio::io_context io;
  std::vector<FromRelay> said;
  std::unique_ptr<RelayServer> server = std::make_unique<RelayServer>(
      io, SshSettings{}, "/nonexistent/muster",
      [this](const FromRelay& message, std::string_view) { said.push_back(message); });

  template <class Message>
  int count() const {
    return static_cast<int>(std::count_if(said.begin(), said.end(), [](const auto& each) {
      return std::holds_alternative<Message>(each);
    }));
  }
};

// Nobody listens at port 1.
RelayConnect to_nobody(std::int64_t ticket) {
  RelayConnect asked;
  asked.ticket = ticket;
  asked.node.id = NodeId{"n" + std::to_string(ticket)};
  asked.node.host = "127.0.0.1";
  asked.node.port = 1;
  asked.node.user = "nobody";
  asked.connect.retries = 0;
  asked.keys = {"no base64!", ""};
  return asked;
}

}  // namespace

TEST_CASE("a relay says which node it cannot reach and why, and forgets it") {
  Served relay;
  relay.server->take(to_nobody(1), "");
  relay.server->take(to_nobody(1), "");
  relay.server->take(RelayDeepen{2, 1}, "");
  relay.io.run();
  REQUIRE(relay.said.size() == 2);
  CHECK(std::get<RelayClosed>(relay.said[0]).ticket == 2);
  const auto& closed = std::get<RelayClosed>(relay.said[1]);
  CHECK(closed.ticket == 1);
  CHECK(closed.failure.kind == LinkFailureKind::unreachable);
  CHECK_THAT(closed.failure.message, ContainsSubstring("n1 (127.0.0.1)"));
  relay.server->take(to_nobody(1), "");  // a ticket that is over
  relay.io.restart();
  relay.io.run();
  CHECK(relay.count<RelayClosed>() == 3);
}

TEST_CASE("a relay that hears anything in any order answers pings, and connects end once") {
  std::mt19937 random(GENERATE(range(1u, 21u)));
  Served relay;
  int pings = 0, over = 0;
  for (int step = 0; step < 300; ++step) {
    const auto ticket = static_cast<std::int64_t>(random() % 4);
    const std::int64_t number = std::int64_t{1} << (random() % 63);
    switch (random() % 9) {
      case 0: relay.server->take(to_nobody(ticket), ""); break;
      case 1: relay.server->take(RelayDeepen{ticket + 100, ticket}, ""); ++over; break;
      case 2: relay.server->take(RelayBytes{ticket}, std::string(random() % 1000, 'x')); break;
      case 3: relay.server->take(RelayRoom{ticket, -number}, ""); break;
      case 4: relay.server->take(RelayHangUp{ticket}, ""); break;
      case 5: relay.server->take(HostKeyJudged{ticket, random() % 2 == 0}, ""); break;
      case 6: relay.server->take(Signed{ticket}, "signature"); break;
      case 7: relay.server->take(RelayPing{}, ""); ++pings; break;
      default: relay.io.restart(); relay.io.poll();
    }
  }
  CHECK(relay.count<RelayPing>() == pings);
  CHECK(relay.count<RelayConnected>() == 0);
  CHECK(relay.count<RelayClosed>() >= over);
  relay.server.reset();
  relay.io.restart();
  relay.io.run();
}

}  // namespace muster
