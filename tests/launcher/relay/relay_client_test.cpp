// The controller's end of one relay, against a relay that the test plays: also one that lies.
#include "launcher/relay/relay_client.h"

#include <algorithm>
#include <limits>

#include "launcher/wire/message_codec.h"
#include "tests/catch.h"
#include "tests/launcher/controller/hand_timers.h"

namespace muster {
namespace {

struct PlayedWire {
  Link::Handlers handlers;
  FrameReader reader;
  std::vector<Received<ToRelay>> sent;
};

class PlayedLink final : public Link {
 public:
  explicit PlayedLink(std::shared_ptr<PlayedWire> wire) : wire_(std::move(wire)) {}
  void start(Handlers handlers) override { wire_->handlers = std::move(handlers); }
  void write(std::string bytes) override {
    wire_->reader.feed(std::as_bytes(std::span(bytes)));
    for (auto frame = wire_->reader.next(); frame && *frame; frame = wire_->reader.next()) {
      wire_->sent.push_back(*decode<ToRelay>(std::move(**frame)));
    }
  }
  std::size_t queued_bytes() const override { return 0; }

 private:
  std::shared_ptr<PlayedWire> wire_;
};

struct Asked {
  Asked() {
    client->start();
    NodeAddress node;
    node.id = NodeId{"n2"};
    client->connect(node, {}, [this](ConnectResult answer) { result = std::move(answer); });
  }
  void say(const FromRelay& message, std::string_view payload = {}) {
    const std::string bytes = encode(message, payload);
    wire->handlers.on_bytes(std::as_bytes(std::span(bytes)));
  }
  Connected& connect() {
    RelayConnected connected;
    connected.ticket = 1;
    say(connected);
    return std::get<Connected>(*result);
  }
  HandTimers timers;
  std::shared_ptr<PlayedWire> wire = std::make_shared<PlayedWire>();
  std::string lost;
  std::optional<ConnectResult> result;
  std::shared_ptr<RelayClient> client =
      std::make_shared<RelayClient>(timers, NodeId{"n1"}, Milliseconds{8000},
                                    std::make_unique<PlayedLink>(wire), [this] { lost = "lost"; });
};

}  // namespace

TEST_CASE("a relay whose messages are longer than any relay's is lost") {
  Asked one;
  RelayConnected connected;
  connected.ticket = 1;
  connected.profile = {{std::string(100'000, 'p'), 1}};
  one.say(connected);
  CHECK(one.lost == "lost");
  CHECK(std::holds_alternative<LinkFailure>(one.result.value()));
}

TEST_CASE("where a relay says the time went is believed as far as it can be") {
  Asked one;
  RelayConnected connected;
  connected.ticket = 1;
  connected.profile = {{"shell\x1b[2J", 1500},
                       {"push", std::numeric_limits<std::int64_t>::max()},
                       {"agent", std::numeric_limits<std::int64_t>::min()}};
  connected.profile.resize(2000, {"x", 1});
  one.say(connected);
  const auto& node = std::get<Connected>(*one.result);
  CHECK(node.profile[0].phase == "shell[2J");
  REQUIRE(node.profile.size() == 32);
  CHECK(node.profile[0].us == 1500);
  CHECK(node.profile[1].us == std::int64_t{24} * 3600 * 1'000'000);
  CHECK(node.profile[2].us == 0);
  CHECK(node.profile[31].us == 1);
}

TEST_CASE("a relay cannot say of a node behind it that it will never be reached") {
  Asked one;
  std::optional<LinkFailure> end;
  auto& link = one.connect().link;
  link->start({[](std::span<const std::byte>) {}, [&](const LinkFailure& why) { end = why; }});
  one.timers.pass(Milliseconds{1});
  const std::string said = "n2: \x1b[2Jgone" + std::string(10'000, '!');
  one.say(RelayClosed{1, {LinkFailureKind::changed_host_key, said}});
  REQUIRE(end);
  CHECK(end->kind == LinkFailureKind::lost);
  CHECK(end->message.size() < 5000);
  CHECK(end->message.find('\x1b') == std::string::npos);
}

TEST_CASE("a relay that is asked for another node after it was lost says so") {
  Asked one;
  one.wire->handlers.on_closed({LinkFailureKind::lost, "cut"});
  CHECK(std::get<LinkFailure>(one.result.value()).kind == LinkFailureKind::lost);
  std::optional<ConnectResult> second;
  NodeAddress node;
  node.id = NodeId{"n3"};
  one.client->connect(node, {}, [&](ConnectResult result) { second = std::move(result); });
  REQUIRE(second);
  CHECK(std::get<LinkFailure>(*second).kind == LinkFailureKind::lost);
}

TEST_CASE("a relay hears that a link is given up, unless it has said itself that it is over") {
  Asked one;
  auto link = std::move(one.connect().link);
  const auto hang_ups = [&] {
    return std::count_if(one.wire->sent.begin(), one.wire->sent.end(), [](const auto& each) {
      return std::holds_alternative<RelayHangUp>(each.message);
    });
  };
  CHECK(one.client->nodes() == 1);
  CHECK_FALSE(one.client->is_idle());
  SECTION("given up") {
    link.reset();
    REQUIRE(hang_ups() == 1);
    CHECK(std::get<RelayHangUp>(one.wire->sent.back().message).ticket == 1);
  }
  SECTION("over before") {
    one.say(RelayClosed{1, {LinkFailureKind::lost, "gone"}});
    link.reset();
    CHECK(hang_ups() == 0);
  }
  SECTION("the relay is lost before") {
    one.wire->handlers.on_closed({LinkFailureKind::lost, "cut"});
    link.reset();
    CHECK(hang_ups() == 0);
  }
  CHECK(one.client->nodes() == 0);
  CHECK(one.client->is_idle());
}

TEST_CASE("a link outlives its relay's client and says nothing any more") {
  Asked one;
  auto link = std::move(one.connect().link);
  one.client.reset();
  const auto before = one.wire->sent.size();
  link->write("to nobody");
  link.reset();
  CHECK(one.wire->sent.size() == before);
}

}  // namespace muster
