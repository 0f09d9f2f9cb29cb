#include "launcher/relay/fan_out_plan.h"
#include "launcher/relay/relay_carriage.h"
#include "launcher/relay/relay_stream.h"
#include "launcher/wire/message_codec.h"
#include "tests/catch.h"
#include "tests/launcher/relay/virtual_timers.h"

namespace muster {
namespace {

// A process that says what the test says and takes what it is told to take.
class ModelProcess final : public RemoteProcess {
 public:
  struct State {
    Handlers handlers;
    std::string written;
    bool is_paused = false;
  };
  explicit ModelProcess(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void handle(Handlers handlers) override { state_->handlers = std::move(handlers); }
  void write(std::string bytes) override { state_->written += bytes; }
  void close_stdin() override {}
  void pause(bool is_paused) override { state_->is_paused = is_paused; }
  std::size_t queued_bytes() const override { return 0; }

 private:
  std::shared_ptr<State> state_;
};

struct Carried {
  std::shared_ptr<ModelProcess::State> process = std::make_shared<ModelProcess::State>();
  std::size_t sent_bytes = 0;
  std::int64_t room_given = 0;
  std::string why;
  RelayCarriage carriage{1, std::make_unique<ModelProcess>(process), "",
                         [this](const FromRelay& message, std::string_view payload) {
                           sent_bytes += payload.size();
                           const auto* room = std::get_if<RelayRoom>(&message);
                           if (room != nullptr) room_given += room->bytes;
                         },
                         [this](const std::string& reason) { why = reason; }};

  void say(const std::string& text) { process->handlers.on_stdout(std::as_bytes(std::span(text))); }
};

struct Streamed {
  VirtualTimers timers;
  std::string sent;
  std::int64_t room_given = 0;
  std::shared_ptr<RelayStream> stream = std::make_shared<RelayStream>(
      timers, 1, "n1", [this](const ToRelay& message, std::string_view payload) {
        sent += payload;
        const auto* room = std::get_if<RelayRoom>(&message);
        if (room != nullptr) room_given += room->bytes;
      });
};

}  // namespace

TEST_CASE("a relay takes no more from a node than its controller has room for") {
  Carried one;
  const std::string piece(100'000, 'x');
  std::size_t said = 0;
  while (!one.process->is_paused) {
    one.say(piece);
    said += piece.size();
  }
  CHECK(one.sent_bytes == static_cast<std::size_t>(relay_window_bytes));
  CHECK(said - one.sent_bytes < piece.size());
  one.carriage.more_room(10);
  CHECK(one.sent_bytes == static_cast<std::size_t>(relay_window_bytes) + 10);
  CHECK(one.process->is_paused);
  one.carriage.more_room(relay_window_bytes);
  CHECK(one.sent_bytes == said);
  CHECK_FALSE(one.process->is_paused);
}

TEST_CASE("what a node said before its end is sent before the end is") {
  Carried one;
  one.say(std::string(relay_window_bytes + 5000, 'x'));
  one.process->handlers.on_stderr("oops\n");
  one.process->handlers.on_exit({1, ""});
  CHECK(one.sent_bytes == static_cast<std::size_t>(relay_window_bytes) + 5000);
  CHECK_THAT(one.why, ContainsSubstring("exit code 1, it said: oops"));
}

TEST_CASE("room for the controller's bytes is released when the node has taken them") {
  Carried one;
  one.carriage.write("hello");
  CHECK(one.process->written == "hello");
  CHECK(one.room_given == 0);
  one.process->handlers.on_drained();
  CHECK(one.room_given == 5);
}

TEST_CASE("a link through a relay sends no more than there is room for, and keeps the rest") {
  Streamed one;
  const std::string bytes(relay_window_bytes + 1000, 'y');
  one.stream->write(bytes);
  CHECK(one.sent.size() == static_cast<std::size_t>(relay_window_bytes));
  CHECK(one.stream->queued_bytes() == bytes.size());
  one.stream->more_room(400);
  CHECK(one.sent.size() == static_cast<std::size_t>(relay_window_bytes) + 400);
  CHECK(one.stream->queued_bytes() == bytes.size() - 400);
  one.stream->more_room(relay_window_bytes);
  one.stream->more_room(relay_window_bytes);  // more than was sent: a lie counts for nothing
  CHECK(one.sent == bytes);
}

TEST_CASE("what comes through a relay before anybody listens is kept, its end too") {
  Streamed one;
  one.stream->bytes("early");
  one.stream->closed({LinkFailureKind::lost, "gone"});
  std::string got;
  one.stream->start({[&](std::span<const std::byte> bytes) {
                       got.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                     },
                     [&](const LinkFailure& failure) { got += "|" + failure.message; }});
  CHECK(got.empty());
  one.timers.pass(Milliseconds{1});
  CHECK(got == "early|gone");
}

TEST_CASE("a link through a relay gives room back for what was heard") {
  Streamed one;
  one.stream->start({[](std::span<const std::byte>) {}, [](const LinkFailure&) {}});
  one.timers.pass(Milliseconds{1});
  for (int i = 0; i < 8; ++i) one.stream->bytes(std::string(relay_window_bytes / 8, 'z'));
  CHECK(one.room_given == relay_window_bytes);
}

TEST_CASE("messages of a relay come through the codec") {
  RelayConnect asked;
  asked.ticket = 7;
  asked.node.host = "h1";
  asked.is_relay = true;
  FrameReader reader;
  const std::string bytes = encode(ToRelay{asked}) + encode(ToRelay{RelayBytes{7}}, "payload");
  reader.feed(std::as_bytes(std::span(bytes)));
  const auto first = decode_to_relay(std::move(**reader.next()));
  REQUIRE(first);
  const auto& read = std::get<RelayConnect>(first->message);
  CHECK(read.ticket == 7);
  CHECK(read.node.host == "h1");
  CHECK(read.is_relay);
  const auto second = decode_to_relay(std::move(**reader.next()));
  REQUIRE(second);
  CHECK(second->payload == "payload");
}

TEST_CASE("relays are started for as many nodes as wait, and no more") {
  ConnectSettings limits;
  limits.fan_out_above = 16;
  limits.fan_out_radix = 4;
  FanOutView view;
  view.nodes = 20;
  CHECK(wants_relay(limits, view, 16, 0));
  CHECK(wants_relay(limits, view, 16, 3));
  CHECK_FALSE(wants_relay(limits, view, 16, 4));
  view.parents = {{NodeId{"a"}, 1, 0}, {NodeId{"b"}, 1, 4}};
  CHECK(wants_relay(limits, view, 5, 0));
  CHECK_FALSE(wants_relay(limits, view, 4, 0));
  view.nodes = 16;
  CHECK_FALSE(wants_relay(limits, view, 5, 0));
}

}  // namespace muster
