#include "health/benchmark/tools/iperf.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include "health/active/probe_door.h"
#include "health/active/probe_socket.h"
#include "health/active/tcp_bulk.h"
#include "health/compare/majority.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t rounds = 300;
constexpr std::size_t rounds_max = 10'000;

// ---- the serving half

class Server {
 public:
  Server(const TcpServeOptions& options, ProbeSocket listener)
      : options_(options), door_(options.token, std::move(listener)) {}

  Result<TcpFigures> run() {
    if (Status met = meet(); !met) return met.error();
    if (Status done = answer_pings(); !done) return done.error();
    if (Status done = take_up(); !done) return done.error();
    if (Status done = give_down(); !done) return done.error();
    return hear_figures();
  }

 private:
  ProbeMoment soon() const { return Clock::now() + options_.grace; }

  Status meet() {
    auto guest = door_.next(Clock::now() + options_.wait);
    if (!guest) return guest.error();
    const auto& words = guest->words;
    const bool is_begin = words.size() == 3 && words[0] == "begin";
    const auto streams =
        is_begin ? probe_number<std::size_t>(words[1], 1, tcp_streams_max) : std::nullopt;
    const auto time =
        is_begin ? probe_number<int>(words[2], 1, tcp_time_max.count()) : std::nullopt;
    if (!streams || !time) return Error{"the partner does not begin as it should"};
    control_ = std::move(guest->socket);
    control_.send_at_once();
    time_ = milliseconds(*time);
    if (Status said = control_.send_all("welcome\n", soon()); !said) return said;
    const auto until = soon();
    while (streams_.size() < *streams) {
      auto stream = door_.next(until);
      if (!stream) return Error{"not all streams came: " + stream.error().message};
      if (stream->words == std::vector<std::string>{"stream"})
        streams_.push_back(std::move(stream->socket));
    }
    return control_.send_all("ready\n", soon());
  }

  Status answer_pings() {
    const auto line = control_.receive_line(soon());
    if (!line) return line.error();
    const auto words = words_of_probe(*line);
    const auto count = words.size() == 2 && words[0] == "ping"
                           ? probe_number<std::size_t>(words[1], 1, rounds_max)
                           : std::nullopt;
    if (!count) return unexpected_of_probe(*line);
    for (std::size_t i = 0; i < *count; ++i) {
      char byte = 0;
      const auto came = control_.receive(&byte, 1, soon());
      if (!came) return came.error();
      if (*came == 0) return Error{"the other side is gone"};
      if (Status sent = control_.send_all({&byte, 1}, soon()); !sent) return sent;
    }
    return Done{};
  }

  Status take_up() {
    if (Status said = expect("up"); !said) return said;
    const auto receipt = receive_bulk(streams_, soon() + time_);
    if (!receipt) return receipt.error();
    waited_ = receipt->waited;
    return control_.send_all("got " + std::to_string(receipt->bytes) + " " +
                                 std::to_string(receipt->took.count()) + "\n",
                             soon());
  }

  Status give_down() {
    if (Status said = expect("down"); !said) return said;
    const auto waited = send_bulk(streams_, time_, options_.grace);
    if (!waited) return waited.error();
    waited_ = std::max(waited_, *waited);
    return Done{};
  }

  Result<TcpFigures> hear_figures() {
    const auto line = control_.receive_line(soon());
    if (!line) return line.error();
    const auto words = words_of_probe(*line);
    if (words.size() != 3 || words[0] != "figures") return unexpected_of_probe(*line);
    const auto gbps = probe_number<double>(words[1], 0, 1e6);
    const auto round_trip_us = probe_number<double>(words[2], 0, 1e9);
    if (!gbps || !round_trip_us) return unexpected_of_probe(*line);
    return TcpFigures{*gbps, *round_trip_us, 100 * waited_};
  }

  Status expect(const std::string& word) {
    const auto line = control_.receive_line(soon());
    if (!line) return line.error();
    if (*line != word) return unexpected_of_probe(*line);
    return Done{};
  }

  const TcpServeOptions& options_;
  ProbeDoor door_;
  ProbeSocket control_;
  std::vector<ProbeSocket> streams_;
  milliseconds time_{0};
  double waited_ = 0;
};

// ---- the connecting half

class Client {
 public:
  explicit Client(const TcpConnectOptions& options) : options_(options) {}

  Result<TcpFigures> run() {
    if (Status met = meet(); !met) return met.error();
    const auto round_trip_us = ping();
    if (!round_trip_us) return round_trip_us.error();
    const auto up = send_up();
    if (!up) return up.error();
    const auto down = take_down();
    if (!down) return down.error();
    const TcpFigures figures{std::min(*up, *down), *round_trip_us, 100 * waited_};
    char text[80];
    std::snprintf(text, sizeof text, "figures %.6g %.6g\n", figures.gbps, figures.round_trip_us);
    if (Status said = control_.send_all(text, soon()); !said) return said.error();
    return figures;
  }

 private:
  ProbeMoment soon() const { return Clock::now() + options_.grace; }

  Result<ProbeSocket> greet(const std::string& wish, ProbeMoment until) {
    return greet_probe({options_.host, options_.port, options_.token}, wish, until);
  }

  Status meet() {
    auto control = greet(
        "begin " + std::to_string(options_.streams) + " " + std::to_string(options_.time.count()),
        Clock::now() + options_.wait);
    if (!control) return control.error();
    control_ = std::move(*control);
    control_.send_at_once();
    if (Status said = expect("welcome"); !said) return said;
    const auto until = soon();
    for (std::size_t i = 0; i < options_.streams; ++i) {
      auto stream = greet("stream", until);
      if (!stream) return stream.error();
      streams_.push_back(std::move(*stream));
    }
    return expect("ready");
  }

  Result<double> ping() {
    if (Status said = control_.send_all("ping " + std::to_string(rounds) + "\n", soon()); !said)
      return said.error();
    std::vector<double> took_us;
    for (std::size_t i = 0; i < rounds; ++i) {
      const auto begun = Clock::now();
      char byte = 'p';
      if (Status sent = control_.send_all({&byte, 1}, soon()); !sent) return sent.error();
      const auto came = control_.receive(&byte, 1, soon());
      if (!came) return came.error();
      if (*came == 0) return Error{"the other side is gone"};
      took_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begun).count());
    }
    return *median_of(std::move(took_us));
  }

  Result<double> send_up() {
    if (Status said = control_.send_all("up\n", soon()); !said) return said.error();
    const auto waited = send_bulk(streams_, options_.time, options_.grace);
    if (!waited) return waited.error();
    waited_ = *waited;
    const auto line = control_.receive_line(soon());
    if (!line) return line.error();
    const auto words = words_of_probe(*line);
    if (words.size() != 3 || words[0] != "got") return unexpected_of_probe(*line);
    const auto bytes = probe_number<std::uint64_t>(words[1], 1, 1ull << 60);
    const auto took_ns = probe_number<std::int64_t>(words[2], 1, 1ll << 60);
    if (!bytes || !took_ns) return unexpected_of_probe(*line);
    return gbps_of({*bytes, std::chrono::nanoseconds(*took_ns)});
  }

  Result<double> take_down() {
    if (Status said = control_.send_all("down\n", soon()); !said) return said.error();
    const auto receipt = receive_bulk(streams_, soon() + options_.time);
    if (!receipt) return receipt.error();
    waited_ = std::max(waited_, receipt->waited);
    return gbps_of(*receipt);
  }

  Status expect(const std::string& word) {
    const auto line = control_.receive_line(soon());
    if (!line) return line.error();
    if (*line != word) return unexpected_of_probe(*line);
    return Done{};
  }

  const TcpConnectOptions& options_;
  ProbeSocket control_;
  std::vector<ProbeSocket> streams_;
  double waited_ = 0;
};

}  // namespace

Result<TcpFigures> serve_tcp_probe(const TcpServeOptions& options) {
  check(is_probe_token(options.token), "a TCP probe without a token");
  auto listener = listen_on(options.address, options.port);
  if (!listener) return listener.error();
  if (options.listening) options.listening(port_of(*listener));
  return Server(options, std::move(*listener)).run();
}

Result<TcpFigures> connect_tcp_probe(const TcpConnectOptions& options) {
  check(is_probe_token(options.token), "a TCP probe without a token");
  check(options.streams >= 1 && options.streams <= tcp_streams_max, "streams of a TCP probe");
  check(options.time.count() >= 1 && options.time <= tcp_time_max, "time of a TCP probe");
  return Client(options).run();
}

}  // namespace muster
