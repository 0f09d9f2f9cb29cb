#include "launcher/transport/link/byte_stream.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <optional>

#include "tests/catch.h"

namespace muster {
namespace {

using Socket = boost::asio::local::stream_protocol::socket;

// A stream, and the other end of its socket.
struct Ends {
  boost::asio::io_context io;
  Socket far{io};
  std::shared_ptr<ByteStream> stream;
  std::string heard;
  int drained = 0;
  std::optional<std::string> ended;

  Ends() {
    Socket near(io);
    boost::asio::local::connect_pair(far, near);
    stream = std::make_shared<ByteStream>(std::move(near));
  }
  ~Ends() { stream->close(); }
  void start() {
    stream->start({[this](std::span<const std::byte> bytes) {
                     heard.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                   },
                   [this] { ++drained; },
                   [this](std::string reason) { ended = std::move(reason); }});
  }
  void say(const std::string& bytes) {
    boost::asio::write(far, boost::asio::buffer(bytes));
    turn();
  }
  void turn() {
    io.restart();
    io.poll();
  }
  // What arrived at the other end, so many bytes of it.
  std::string arrived(std::size_t size) {
    std::string bytes(size, '\0');
    bool is_read = false;
    boost::asio::async_read(far, boost::asio::buffer(bytes),
                            [&](boost::system::error_code error, std::size_t) {
                              CHECK_FALSE(error);
                              is_read = true;
                            });
    while (!is_read && !ended) {
      io.restart();
      io.run_one();
    }
    return bytes;
  }
};

TEST_CASE("nothing is read before the start, nor while it is paused, and all of it after that") {
  Ends ends;
  ends.say("early ");
  ends.stream->pause(false);
  ends.turn();
  CHECK(ends.heard.empty());
  ends.start();
  ends.turn();
  CHECK(ends.heard == "early ");
  ends.stream->pause(true);
  ends.say("one ");  // the read that was under way
  const std::string before = ends.heard;
  ends.say("two ");
  ends.say("three");
  CHECK(ends.heard == before);
  ends.stream->pause(false);
  ends.turn();
  CHECK(ends.heard == "early one two three");
  ends.stream->pause(false);
  ends.say("!");
  CHECK(ends.heard == "early one two three!");
}

TEST_CASE("bytes are sent in their order, are counted until then, and the last of them is told") {
  Ends ends;
  ends.start();
  const std::string much(2'000'000, 'x');
  ends.stream->write(much);
  ends.stream->write("");
  ends.stream->write("end");
  CHECK(ends.stream->queued_bytes() == much.size() + 3);
  CHECK(ends.drained == 0);
  CHECK(ends.arrived(much.size() + 3) == much + "end");
  ends.turn();
  CHECK(ends.stream->queued_bytes() == 0);
  CHECK(ends.drained == 1);
}

TEST_CASE("the other end hears of the last byte, and can still speak") {
  Ends ends;
  ends.start();
  ends.stream->write("last");
  ends.stream->finish_writing();
  ends.stream->write("too late");
  CHECK(ends.arrived(4) == "last");
  ends.turn();
  char more = 0;
  boost::system::error_code error;
  ends.far.non_blocking(true);
  boost::asio::read(ends.far, boost::asio::buffer(&more, 1), error);
  CHECK(error == boost::asio::error::eof);
  ends.say("answer");
  CHECK(ends.heard == "answer");
  CHECK_FALSE(ends.ended);
  ends.far.close();
  ends.turn();
  CHECK(ends.ended == "");  // closed by the other side, after its last word
  CHECK(ends.heard == "answer");
}

TEST_CASE("a stream that was closed calls nobody") {
  Ends ends;
  ends.start();
  boost::asio::write(ends.far, boost::asio::buffer(std::string("unheard")));
  ends.stream->write("unsent");
  ends.stream->close();
  ends.turn();
  CHECK(ends.heard.empty());
  CHECK(ends.drained == 0);
  CHECK_FALSE(ends.ended);
}

}  // namespace
}  // namespace muster
