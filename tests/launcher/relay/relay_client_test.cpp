// The controller's end of one relay, against a relay that the test plays: also one that lies.
#include "launcher/relay/relay_client.h"

#include <algorithm>
#include <limits>

#include "launcher/transport/base64.h"
#include "launcher/transport/wire_reader.h"
#include "launcher/wire/message_codec.h"
#include "tests/catch.h"
#include "tests/launcher/relay/virtual_timers.h"

namespace muster {
namespace {

std::string key_named(char name) {
  return wire_string("ssh-ed25519") + wire_string(std::string(32, name));
}

std::string login_with(const std::string& key) {
  return wire_string(std::string(32, 's')) + '\x32' + wire_string("ml") +
         wire_string("ssh-connection") + wire_string("publickey") + '\1' +
         wire_string("ssh-ed25519") + wire_string(key);
}

// Two keys, signs with both, and keeps what it was asked.
class ModelTrust final : public LoginTrust {
 public:
  std::vector<std::string> known_types(const SshTarget&) override { return {}; }
  void judge(const SshTarget&, const std::string&, std::function<void(bool)> done) override {
    ++judged;
    done(true);
  }
  void keys_for(const NodeAddress&, std::function<void(std::vector<std::string>)> done) override {
    done({key_named('a'), key_named('b')});
  }
  void sign(const std::string&, std::string_view,
            std::function<void(std::optional<std::string>)> done) override {
    ++signed_logins;
    done("signature");
  }

  int judged = 0;
  int signed_logins = 0;
};

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
      wire_->sent.push_back(*decode_to_relay(std::move(**frame)));
    }
  }
  std::size_t queued_bytes() const override { return 0; }

 private:
  std::shared_ptr<PlayedWire> wire_;
};

struct Asked {
  Asked() {
    client->start();
    SshTarget target;
    target.node.id = NodeId{"n2"};
    target.node.user = "ml";
    client->connect(target, {}, [this](ConnectResult answer) { result = std::move(answer); });
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
  template <class Message>
  int sent() const {
    return static_cast<int>(std::count_if(
        wire->sent.begin(), wire->sent.end(),
        [](const auto& each) { return std::holds_alternative<Message>(each.message); }));
  }

  VirtualTimers timers;
  std::shared_ptr<PlayedWire> wire = std::make_shared<PlayedWire>();
  std::shared_ptr<ModelTrust> trust = std::make_shared<ModelTrust>();
  std::string lost;
  std::optional<ConnectResult> result;
  std::shared_ptr<RelayClient> client = std::make_shared<RelayClient>(
      timers, NodeId{"n1"}, Milliseconds{8000}, std::make_unique<PlayedLink>(wire), trust,
      [this] { lost = "lost"; });
};

}  // namespace

TEST_CASE("a login through a relay is signed once a key, however often the relay asks") {
  Asked one;
  const std::string key = key_named('a');
  one.say(SignAsked{1, encode_base64(key)}, login_with(key));
  one.say(SignAsked{1, encode_base64(key)}, login_with(key));
  CHECK(one.trust->signed_logins == 1);
  CHECK(one.wire->sent.back().payload.empty());
  one.say(SignAsked{1, encode_base64(key_named('b'))}, login_with(key_named('b')));
  CHECK(one.trust->signed_logins == 2);
  CHECK(one.sent<Signed>() == 3);
}

TEST_CASE("nothing is signed for a node that is connected, or was never asked for") {
  Asked one;
  one.connect();
  const std::string key = key_named('a');
  one.say(SignAsked{1, encode_base64(key)}, login_with(key));
  one.say(SignAsked{7, encode_base64(key)}, login_with(key));
  CHECK(one.trust->signed_logins == 0);
}

TEST_CASE("a relay that starts another has no host key judged, which nobody's policy covers") {
  Asked one;
  one.connect().start_relay([](RelayResult) {});
  REQUIRE(one.sent<RelayDeepen>() == 1);
  one.say(HostKeySeen{2}, key_named('h'));
  CHECK(one.trust->judged == 0);
}

TEST_CASE("a relay that asks without end is lost") {
  Asked one;
  for (int i = 0; i < 10'000 && one.lost.empty(); ++i) one.say(HostKeySeen{1}, key_named('h'));
  CHECK(one.lost == "lost");
  CHECK(std::holds_alternative<LinkFailure>(one.result.value()));
}

TEST_CASE("a relay whose messages are longer than any relay's is lost") {
  Asked one;
  RelayConnected connected;
  connected.ticket = 1;
  connected.methods = std::string(100'000, 'm');
  one.say(connected);
  CHECK(one.lost == "lost");
  CHECK(std::holds_alternative<LinkFailure>(one.result.value()));
}

TEST_CASE("where a relay says the time went is believed as far as it can be") {
  Asked one;
  RelayConnected connected;
  connected.ticket = 1;
  connected.methods = "aes\x1b[2J";
  connected.profile = {{"kex", 1500},
                       {"auth", std::numeric_limits<std::int64_t>::max()},
                       {"shell", std::numeric_limits<std::int64_t>::min()}};
  connected.profile.resize(2000, {"x", 1});
  one.say(connected);
  const auto& node = std::get<Connected>(*one.result);
  CHECK(node.methods == "aes[2J");
  CHECK(node.profile.size() < 100);
  CHECK(node.profile[0].us == 1500);
  for (const PhaseTime& each : node.profile) {
    CHECK(each.us >= 0);
    CHECK(each.us <= std::int64_t{24} * 3600 * 1'000'000);
  }
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

TEST_CASE("a relay asked to start another after it was lost says so") {
  Asked one;
  Connected& node = one.connect();
  one.wire->handlers.on_closed({LinkFailureKind::lost, "cut"});
  std::optional<RelayResult> started;
  node.start_relay([&](RelayResult result) { started = std::move(result); });
  REQUIRE(started);
  CHECK(std::get<LinkFailure>(*started).kind == LinkFailureKind::lost);
}

}  // namespace muster
