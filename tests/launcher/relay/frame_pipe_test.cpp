// Standard input and output of a relay: the test is the controller at their other ends.
#include "launcher/relay/relay_server.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "launcher/os/fd.h"
#include "launcher/wire/message_codec.h"
#include "launcher/wire/relay_message.h"
#include "tests/catch.h"

namespace muster {
namespace {

struct Piped {
  Piped() {
    ::signal(SIGPIPE, SIG_IGN);  // as a relay does
    auto down = make_pipe(), up = make_pipe();
    REQUIRE((down && up));
    says = std::move(down->write_end);
    hears = std::move(up->read_end);
    ::fcntl(hears.get(), F_SETFL, O_NONBLOCK);
    pipe.emplace(io, down->read_end.release(), up->write_end.release());
    pipe->start({[this](Frame frame) {
                   auto message = decode<ToRelay>(std::move(frame));
                   REQUIRE(message);
                   payloads.push_back(message->payload);
                 },
                 [this](const std::string& why) { ends.push_back(why); }});
  }
  void turn() {
    for (int i = 0; i < 10; ++i) {
      io.restart();
      io.poll();
    }
  }
  void say(const std::string& bytes) {
    REQUIRE(write_all(says.get(), bytes));
    turn();
  }
  // Until nothing more comes.
  std::string heard() {
    std::string all, piece(64 << 10, '\0');
    for (int empty = 0; empty < 10; turn()) {
      const ssize_t got = ::read(hears.get(), piece.data(), piece.size());
      if (got > 0) all.append(piece, 0, static_cast<std::size_t>(got));
      empty = got > 0 ? 0 : empty + 1;
    }
    return all;
  }

  boost::asio::io_context io;
  Fd says;
  Fd hears;
  std::optional<FramePipe> pipe;
  std::vector<std::string> payloads;
  std::vector<std::string> ends;
};

std::string bytes_of(const std::string& payload) {
  return encode(ToRelay{RelayBytes{1}}, payload);
}

}  // namespace

TEST_CASE("a relay hears whole frames in order, however they come") {
  Piped one;
  const std::string large(100'000, 'x');
  const std::string bytes = bytes_of("first") + bytes_of(large) + bytes_of("last");
  one.say(bytes.substr(0, 9));
  CHECK(one.payloads.empty());
  one.say(bytes.substr(9, 30'000));
  CHECK(one.payloads == std::vector<std::string>{"first"});
  for (std::size_t at = 9 + 30'000; at < bytes.size(); at += 30'000) {
    one.say(bytes.substr(at, 30'000));
  }
  CHECK((one.payloads == std::vector<std::string>{"first", large, "last"}));
  CHECK(one.ends.empty());
}

TEST_CASE("what a relay says arrives whole and in order, though it is more than a pipe holds") {
  Piped one;
  std::string all;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    const std::string piece(150'000, letter);
    one.pipe->write(piece);
    all += piece;
  }
  CHECK((one.heard() == all));
  one.pipe->write("more");
  CHECK(one.heard() == "more");
  CHECK(one.ends.empty());
}

TEST_CASE("a relay ends once, and says whether its controller went or spoke nonsense") {
  Piped one;
  SECTION("it hung up") {
    one.says.reset();
    one.turn();
    CHECK(one.ends == std::vector<std::string>{"its controller disconnected"});
  }
  SECTION("it does not listen") {
    one.hears.reset();
    one.pipe->write("to nobody");
    one.turn();
    CHECK(one.ends == std::vector<std::string>{"its controller does not listen"});
    one.pipe->write("to nobody either");
  }
  SECTION("it says what is no frame") {
    one.say(std::string(64, '\xff') + bytes_of("too late"));
  }
  one.says.reset();
  one.turn();
  CHECK(one.ends.size() == 1);
  CHECK(one.payloads.empty());
}

}  // namespace muster
