#include <deque>
#include <random>

#include "launcher/relay/fan_out_tree.h"
#include "launcher/relay/relay_client.h"
#include "launcher/relay/relay_server.h"
#include "launcher/wire/message_codec.h"
#include "tests/catch.h"
#include "tests/launcher/controller/hand_timers.h"

namespace muster {
namespace {

// A process that says what the test says and takes what it is told to take.
class ModelProcess final : public RemoteProcess {
 public:
  struct State {
    Handlers handlers;
    std::string written;  // and not yet taken
    bool is_paused = false;
  };
  explicit ModelProcess(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void handle(Handlers handlers) override { state_->handlers = std::move(handlers); }
  void write(std::string bytes) override { state_->written += bytes; }
  void close_stdin() override {}
  void pause(bool is_paused) override { state_->is_paused = is_paused; }
  std::size_t queued_bytes() const override { return state_->written.size(); }

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
  HandTimers timers;
  std::string sent;
  std::int64_t room_given = 0;
  std::shared_ptr<RelayStream> stream = std::make_shared<RelayStream>(
      timers, 1, "n1", [this](const ToRelay& message, std::string_view payload) {
        sent += payload;
        const auto* room = std::get_if<RelayRoom>(&message);
        if (room != nullptr) room_given += room->bytes;
      });
};

// Both ends of one ticket, joined: a Link at the controller and the process on the node, at every
// pace of either and of the way between them.

constexpr std::size_t all_bytes = 3'000'000;

std::string counted(std::size_t from, std::size_t size) {
  std::string text(size, '\0');
  for (char& byte : text) byte = static_cast<char>(from++ * 2654435761u >> 16);
  return text;
}

template <class Message>
struct Way {
  std::deque<std::pair<Message, std::string>> messages;
  std::size_t bytes = 0;
  void add(const Message& message, std::string_view payload) {
    messages.emplace_back(message, payload);
    bytes += payload.size();
  }
  std::pair<Message, std::string> next() {
    auto message = std::move(messages.front());
    messages.pop_front();
    bytes -= message.second.size();
    return message;
  }
};

struct Ticket {
  HandTimers timers;
  std::shared_ptr<ModelProcess::State> node = std::make_shared<ModelProcess::State>();
  Way<ToRelay> down;
  Way<FromRelay> up;
  std::string heard_here, heard_there;
  std::size_t said_here = 0, said_there = 0;
  std::shared_ptr<RelayStream> stream = std::make_shared<RelayStream>(
      timers, 1, "n1",
      [this](const ToRelay& message, std::string_view payload) { down.add(message, payload); });
  RelayCarriage carriage{
      1, std::make_unique<ModelProcess>(node), "",
      [this](const FromRelay& message, std::string_view payload) { up.add(message, payload); },
      [](const std::string&) {}};

  Ticket() {
    stream->start({[this](std::span<const std::byte> bytes) {
                     heard_here.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                   },
                   [](const LinkFailure&) {}});
  }
  void say_here(std::size_t size) {
    size = std::min(size, all_bytes - said_here);
    stream->write(counted(said_here, size));
    said_here += size;
  }
  void say_there(std::size_t size) {
    if (node->is_paused) return;
    size = std::min(size, all_bytes - said_there);
    const std::string text = counted(said_there, size);
    said_there += size;
    node->handlers.on_stdout(std::as_bytes(std::span(text)));
  }
  void pass_down() {
    if (down.messages.empty()) return;
    auto [message, payload] = down.next();
    if (const auto* room = std::get_if<RelayRoom>(&message)) {
      carriage.more_room(room->bytes);
    } else {
      carriage.write(std::move(payload));
    }
  }
  void pass_up() {
    if (up.messages.empty()) return;
    auto [message, payload] = up.next();
    if (const auto* room = std::get_if<RelayRoom>(&message)) {
      stream->more_room(room->bytes);
    } else {
      stream->bytes(std::move(payload));
    }
  }
  void take_there() {
    if (node->written.empty()) return;
    heard_there += std::exchange(node->written, {});
    node->handlers.on_drained();
  }
  bool is_done() const { return heard_here.size() == all_bytes && heard_there.size() == all_bytes; }
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
  const auto first = decode<ToRelay>(std::move(**reader.next()));
  REQUIRE(first);
  const auto& read = std::get<RelayConnect>(first->message);
  CHECK(read.ticket == 7);
  CHECK(read.node.host == "h1");
  CHECK(read.is_relay);
  const auto second = decode<ToRelay>(std::move(**reader.next()));
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

TEST_CASE("bytes through a relay come whole and in order, and no more than a window is under way") {
  std::mt19937 random(GENERATE(range(1u, 13u)));
  const auto below = [&](unsigned limit) { return random() % limit; };
  unsigned pace[5];
  for (unsigned& each : pace) each = 1 + below(40);  // some ends and ways are slow
  Ticket ticket;
  ticket.timers.pass(Milliseconds{1});
  std::size_t most_down = 0, most_up = 0;
  for (int step = 0; step < 400'000 && !ticket.is_done(); ++step) {
    if (below(pace[0]) == 0) ticket.say_here(below(700'000));
    if (below(pace[1]) == 0) ticket.say_there(below(65'536));
    if (below(pace[2]) == 0) ticket.pass_down();
    if (below(pace[3]) == 0) ticket.pass_up();
    if (below(pace[4]) == 0) ticket.take_there();
    most_down = std::max(most_down, ticket.down.bytes + ticket.node->written.size());
    most_up = std::max(most_up, ticket.up.bytes);
  }
  CHECK(ticket.heard_here == counted(0, all_bytes));
  CHECK(ticket.heard_there == counted(0, all_bytes));
  CHECK(most_down <= static_cast<std::size_t>(relay_window_bytes));
  CHECK(most_up <= static_cast<std::size_t>(relay_window_bytes));
  for (int rest = 0; rest < 50; ++rest) {
    ticket.pass_up();
    ticket.pass_down();
  }
  CHECK(ticket.stream->queued_bytes() == 0);
}

}  // namespace muster
