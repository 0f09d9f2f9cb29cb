// Both ends of one ticket, joined: a Link at the controller and the process on the node, at every
// pace of either and of the way between them.
#include <deque>
#include <random>

#include "launcher/relay/relay_carriage.h"
#include "launcher/relay/relay_stream.h"
#include "tests/catch.h"
#include "tests/launcher/relay/virtual_timers.h"

namespace muster {
namespace {

constexpr std::size_t all_bytes = 3'000'000;

std::string counted(std::size_t from, std::size_t size) {
  std::string text(size, '\0');
  for (char& byte : text) byte = static_cast<char>(from++ * 2654435761u >> 16);
  return text;
}

struct Node {
  RemoteProcess::Handlers handlers;
  std::string untaken;  // written to its standard input
  bool is_paused = false;
};

class NodeProcess final : public RemoteProcess {
 public:
  explicit NodeProcess(Node& node) : node_(node) {}
  void handle(Handlers handlers) override { node_.handlers = std::move(handlers); }
  void write(std::string bytes) override { node_.untaken += bytes; }
  void close_stdin() override {}
  void pause(bool is_paused) override { node_.is_paused = is_paused; }
  std::size_t queued_bytes() const override { return node_.untaken.size(); }

 private:
  Node& node_;
};

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
  VirtualTimers timers;
  Node node;
  Way<ToRelay> down;
  Way<FromRelay> up;
  std::string heard_here, heard_there;
  std::size_t said_here = 0, said_there = 0;
  std::shared_ptr<RelayStream> stream = std::make_shared<RelayStream>(
      timers, 1, "n1",
      [this](const ToRelay& message, std::string_view payload) { down.add(message, payload); });
  RelayCarriage carriage{
      1, std::make_unique<NodeProcess>(node), "",
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
    if (node.is_paused) return;
    size = std::min(size, all_bytes - said_there);
    const std::string text = counted(said_there, size);
    said_there += size;
    node.handlers.on_stdout(std::as_bytes(std::span(text)));
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
    if (node.untaken.empty()) return;
    heard_there += std::exchange(node.untaken, {});
    node.handlers.on_drained();
  }
  bool is_done() const { return heard_here.size() == all_bytes && heard_there.size() == all_bytes; }
};

}  // namespace

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
    most_down = std::max(most_down, ticket.down.bytes + ticket.node.untaken.size());
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
