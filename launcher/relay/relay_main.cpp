#include "launcher/relay/relay_main.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "launcher/os/child.h"
#include "launcher/relay/relay_server.h"
#include "launcher/wire/message_codec.h"

namespace muster {
namespace {

// The controller says something every second. A relay whose controller's host is gone hears it from
// nobody.
constexpr std::chrono::seconds silence_limit{120};

class Relay {
 public:
  explicit Relay(boost::asio::io_context& io)
      : io_(io),
        pipe_(io, STDIN_FILENO, STDOUT_FILENO),
        silence_(io),
        server_(io, self_exe(), [this](const FromRelay& message, std::string_view payload) {
          pipe_.write(encode(message, payload));
        }) {}

  int run() {
    pipe_.start({[this](Frame frame) { take(std::move(frame)); },
                 [this](const std::string& why) { end(why); }});
    watch_silence();
    io_.run();
    return 0;
  }

 private:
  void take(Frame frame) {
    watch_silence();
    auto message = decode<ToRelay>(std::move(frame));
    if (!message) return end(message.error().message);
    server_.take(message->message, std::move(message->payload));
  }

  void watch_silence() {
    silence_.expires_after(silence_limit);
    silence_.async_wait([this](const boost::system::error_code& error) {
      if (!error) end("its controller does not respond");
    });
  }

  void end(const std::string& why) {
    std::fprintf(stderr, "muster agent relay: %s\n", why.c_str());
    io_.stop();
  }

  boost::asio::io_context& io_;
  FramePipe pipe_;
  boost::asio::steady_timer silence_;
  RelayServer server_;
};

}  // namespace

int agent_relay() {
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_NAME, "muster-relay");
  constexpr char marker[] = "MUSTER-ATTACHED\n";
  if (::write(STDOUT_FILENO, marker, sizeof marker - 1) != sizeof marker - 1) return 1;
  try {
    boost::asio::io_context io(1);
    return Relay(io).run();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "muster agent relay: %s\n", failure.what());
    return 1;
  }
}

}  // namespace muster
