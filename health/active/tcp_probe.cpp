#include "health/active/tcp_probe.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <sstream>
#include <vector>

#include "health/active/probe_socket.h"
#include "health/active/tcp_bulk.h"
#include "health/fleet.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* greeting = "muster-probe 1 ";
// A connection that says nothing is somebody else's.
constexpr milliseconds greeting_limit{1'000};
constexpr std::size_t rounds = 300;
constexpr std::size_t rounds_max = 10'000;

// Takes as long for a wrong token as for the right one.
bool is_same(std::string_view one, std::string_view other) {
  unsigned difference = one.size() == other.size() ? 0 : 1;
  for (std::size_t i = 0; i < one.size() && i < other.size(); ++i) {
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  }
  return difference == 0;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; words.size() < 8 && stream >> word;) words.push_back(word);
  return words;
}

template <class Number>
std::optional<Number> number_in(const std::string& word, Number least, Number most) {
  Number value{};
  const auto [at, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc() && at == word.data() + word.size();
  return is_number && value >= least && value <= most ? std::optional(value) : std::nullopt;
}

Error unexpected(const std::string& line) {
  return Error{"the other side said something else: " + line.substr(0, 80)};
}

// ---- the serving half

// Lets in who knows the token.
class Door {
 public:
  explicit Door(const TcpServeOptions& options, ProbeSocket listener)
      : token_(options.token), listener_(std::move(listener)) {}

  struct Guest {
    ProbeSocket socket;
    std::vector<std::string> words;  // what it wants, after the token
  };
  Result<Guest> next(ProbeMoment until) {
    while (Clock::now() < until) {
      auto socket = accept_from(listener_, until);
      if (!socket) return socket.error();
      if (!socket->is_open()) break;
      const auto line = socket->receive_line(std::min(until, Clock::now() + greeting_limit));
      auto words = line ? wish_of(*line) : std::nullopt;
      if (words) return Guest{std::move(*socket), std::move(*words)};
      ++refused_;
      (void)socket->send_all("refused\n", Clock::now());  // it may be gone
    }
    return Error{"nobody with the token came in time (" + std::to_string(refused_) +
                 " were refused)"};
  }

 private:
  std::optional<std::vector<std::string>> wish_of(const std::string& line) const {
    if (!line.starts_with(greeting)) return std::nullopt;
    auto words = words_of(line.substr(std::string_view(greeting).size()));
    if (words.empty() || !is_same(words.front(), token_)) return std::nullopt;
    words.erase(words.begin());
    return words;
  }

  std::string token_;
  ProbeSocket listener_;
  int refused_ = 0;
};

class Server {
 public:
  Server(const TcpServeOptions& options, ProbeSocket listener)
      : options_(options), door_(options, std::move(listener)) {}

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
        is_begin ? number_in<std::size_t>(words[1], 1, tcp_streams_max) : std::nullopt;
    const auto time = is_begin ? number_in<int>(words[2], 1, tcp_time_max.count()) : std::nullopt;
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
    const auto words = words_of(*line);
    const auto count = words.size() == 2 && words[0] == "ping"
                           ? number_in<std::size_t>(words[1], 1, rounds_max)
                           : std::nullopt;
    if (!count) return unexpected(*line);
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
    return control_.send_all("got " + std::to_string(receipt->bytes) + " " +
                                 std::to_string(receipt->took.count()) + "\n",
                             soon());
  }

  Status give_down() {
    if (Status said = expect("down"); !said) return said;
    return send_bulk(streams_, time_, options_.grace);
  }

  Result<TcpFigures> hear_figures() {
    const auto line = control_.receive_line(soon());
    if (!line) return line.error();
    const auto words = words_of(*line);
    if (words.size() != 3 || words[0] != "figures") return unexpected(*line);
    const auto gbps = number_in<double>(words[1], 0, 1e6);
    const auto round_trip_us = number_in<double>(words[2], 0, 1e9);
    if (!gbps || !round_trip_us) return unexpected(*line);
    return TcpFigures{*gbps, *round_trip_us};
  }

  Status expect(const std::string& word) {
    const auto line = control_.receive_line(soon());
    if (!line) return line.error();
    if (*line != word) return unexpected(*line);
    return Done{};
  }

  const TcpServeOptions& options_;
  Door door_;
  ProbeSocket control_;
  std::vector<ProbeSocket> streams_;
  milliseconds time_{0};
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
    const TcpFigures figures{std::min(*up, *down), *round_trip_us};
    char text[80];
    std::snprintf(text, sizeof text, "figures %.6g %.6g\n", figures.gbps, figures.round_trip_us);
    if (Status said = control_.send_all(text, soon()); !said) return said.error();
    return figures;
  }

 private:
  ProbeMoment soon() const { return Clock::now() + options_.grace; }

  Result<ProbeSocket> greet(const std::string& wish, ProbeMoment until) {
    auto socket = connect_to(options_.host, options_.port, until);
    if (!socket) return socket.error();
    const std::string line = greeting + options_.token + " " + wish + "\n";
    if (Status said = socket->send_all(line, soon()); !said) return said.error();
    return socket;
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
    if (Status sent = send_bulk(streams_, options_.time, options_.grace); !sent)
      return sent.error();
    const auto line = control_.receive_line(soon());
    if (!line) return line.error();
    const auto words = words_of(*line);
    if (words.size() != 3 || words[0] != "got") return unexpected(*line);
    const auto bytes = number_in<std::uint64_t>(words[1], 1, 1ull << 60);
    const auto took_ns = number_in<std::int64_t>(words[2], 1, 1ll << 60);
    if (!bytes || !took_ns) return unexpected(*line);
    return gbps_of({*bytes, std::chrono::nanoseconds(*took_ns)});
  }

  Result<double> take_down() {
    if (Status said = control_.send_all("down\n", soon()); !said) return said.error();
    const auto receipt = receive_bulk(streams_, soon() + options_.time);
    if (!receipt) return receipt.error();
    return gbps_of(*receipt);
  }

  Status expect(const std::string& word) {
    const auto line = control_.receive_line(soon());
    if (!line) return line.error();
    if (*line == "refused") return Error{"the other side refused: it has another token"};
    if (*line != word) return unexpected(*line);
    return Done{};
  }

  const TcpConnectOptions& options_;
  ProbeSocket control_;
  std::vector<ProbeSocket> streams_;
};

}  // namespace

bool is_probe_token(std::string_view token) {
  const bool is_plain = std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; });
  return is_plain && token.size() >= 8 && token.size() <= 128;
}

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
