// Both halves of the TCP probe, in processes of their own on this host.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "health/active/probe_door.h"
#include "health/active/probe_socket.h"
#include "health/benchmark/command.h"
#include "health/benchmark/tools/iperf.h"
#include "tests/catch.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr const char* token = "a-token-of-this-run";

struct Heard {
  std::uint16_t port = 0;
};

struct Outcome {
  bool is_good = false;
  TcpFigures figures;
  char why[200] = {};
};

Outcome outcome_of(const Result<TcpFigures>& result) {
  Outcome outcome;
  outcome.is_good = static_cast<bool>(result);
  if (result) {
    outcome.figures = *result;
  } else {
    std::snprintf(outcome.why, sizeof outcome.why, "%s", result.error().message.c_str());
  }
  return outcome;
}

// The serving half in a child, which says where it listens and how it ended.
class ServingChild {
 public:
  explicit ServingChild(TcpServeOptions options) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      options.listening = [&](std::uint16_t port) { tell(ends[1], Heard{port}); };
      tell(ends[1], outcome_of(serve_tcp_probe(options)));
      ::_exit(0);
    }
    ::close(ends[1]);
    reading_ = ends[0];
    Heard heard;
    REQUIRE(hear(heard));
    port_ = heard.port;
  }
  ~ServingChild() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(reading_);
  }
  std::uint16_t port() const { return port_; }
  void signal(int number) { ::kill(pid_, number); }
  Outcome outcome() {
    Outcome outcome;
    REQUIRE(hear(outcome));
    return outcome;
  }

 private:
  template <class Told>
  static void tell(int fd, const Told& told) {
    if (::write(fd, &told, sizeof told) != sizeof told) ::_exit(1);
  }
  template <class Told>
  bool hear(Told& told) {
    return ::read(reading_, &told, sizeof told) == sizeof told;
  }

  pid_t pid_ = -1;
  int reading_ = -1;
  std::uint16_t port_ = 0;
};

TcpServeOptions serving() {
  TcpServeOptions options;
  options.address = "127.0.0.1";
  options.token = token;
  options.wait = 20s;
  return options;
}

TcpConnectOptions connecting(std::uint16_t port) {
  TcpConnectOptions options;
  options.host = "127.0.0.1";
  options.port = port;
  options.token = token;
  options.wait = 10s;
  options.streams = 3;
  options.time = 100ms;
  return options;
}

ProbeMoment in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

}  // namespace

TEST_CASE("two ends measure both ways, and say the same") {
  ServingChild server(serving());
  const Outcome mine = outcome_of(connect_tcp_probe(connecting(server.port())));
  INFO(mine.why);
  REQUIRE(mine.is_good);
  CHECK(mine.figures.gbps > 0.01);
  CHECK(mine.figures.gbps < 10'000);
  CHECK(mine.figures.round_trip_us > 0.1);
  CHECK(mine.figures.round_trip_us < 1e6);
  const Outcome theirs = server.outcome();
  REQUIRE(theirs.is_good);
  CHECK(std::abs(theirs.figures.gbps / mine.figures.gbps - 1) < 1e-4);
  CHECK(std::abs(theirs.figures.round_trip_us / mine.figures.round_trip_us - 1) < 1e-4);
}

TEST_CASE("halves that share their processor with others say how long they waited for it") {
  if (::access("/proc/thread-self/schedstat", R_OK) != 0) {
    WARN("this kernel keeps no accounts");
    return;
  }
  cpu_set_t all;
  REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  std::atomic<bool> is_over = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      while (!is_over) continue;
    });
  }
  ServingChild server(serving());
  const auto mine = connect_tcp_probe(connecting(server.port()));
  is_over = true;
  for (std::thread& other : others) other.join();
  ::sched_setaffinity(0, sizeof all, &all);
  REQUIRE(mine);
  CHECK(mine->waited_pct > 5);
  CHECK(mine->waited_pct < 101);
}

TEST_CASE("who does not know the token is refused, and the partner is served all the same") {
  ServingChild server(serving());
  TcpConnectOptions stranger = connecting(server.port());
  for (const char* wrong : {"another-token-here!", "a-token-of-this-ru", "a-token-of-this-run2"}) {
    stranger.token = wrong;
    const Outcome refused = outcome_of(connect_tcp_probe(stranger));
    REQUIRE_FALSE(refused.is_good);
    CHECK_THAT(std::string(refused.why), ContainsSubstring("another token"));
  }
  CHECK(connect_tcp_probe(connecting(server.port())));
  CHECK(server.outcome().is_good);
}

TEST_CASE("what talks otherwise is refused") {
  ServingChild server(serving());
  const std::string begin = std::string("muster-probe 1 ") + token + " begin ";
  for (const std::string& words : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\n"),
                                   std::string(1000, 'x') + "\n", std::string("muster-probe 1 \n"),
                                   std::string("muster-probe 2 ") + token + " begin 1 1\n"}) {
    auto socket = connect_to("127.0.0.1", server.port(), in(5s));
    REQUIRE(socket);
    REQUIRE(socket->send_all(words, in(5s)));
    const auto answer = socket->receive_line(in(10s));
    if (answer) CHECK(*answer == "refused");
  }
  CHECK(connect_tcp_probe(connecting(server.port())));
}

TEST_CASE("a partner's wishes have limits") {
  const std::string begin = std::string("muster-probe 1 ") + token + " begin ";
  for (const char* wish : {"0 100", "65 100", "1 0", "1 60001", "1", "x 1", "1 1 1"}) {
    INFO(wish);
    ServingChild server(serving());
    auto socket = connect_to("127.0.0.1", server.port(), in(5s));
    REQUIRE(socket);
    REQUIRE(socket->send_all(begin + wish + "\n", in(5s)));
    CHECK_FALSE(server.outcome().is_good);
  }
}

TEST_CASE("nobody comes: the serving half ends in time") {
  TcpServeOptions options = serving();
  options.wait = 100ms;
  ServingChild server(options);
  const Outcome outcome = server.outcome();
  CHECK_FALSE(outcome.is_good);
  CHECK_THAT(std::string(outcome.why), ContainsSubstring("nobody with the token came in time"));
}

TEST_CASE("nobody listens: the connecting half ends in time") {
  std::uint16_t port = 0;
  {
    const auto listener = listen_on("127.0.0.1", 0);
    REQUIRE(listener);
    port = port_of(*listener);
  }
  TcpConnectOptions options = connecting(port);
  options.wait = 200ms;
  const auto outcome = connect_tcp_probe(options);
  REQUIRE_FALSE(outcome);
  CHECK_THAT(outcome.error().message, ContainsSubstring("cannot reach 127.0.0.1"));
}

TEST_CASE("that nobody came is no error of accepting") {
  const auto listener = listen_on("127.0.0.1", 0);
  REQUIRE(listener);
  const auto nobody = accept_from(*listener, in(10ms));
  REQUIRE(nobody);
  CHECK_FALSE(nobody->is_open());
}

TEST_CASE(
    "the connecting half asks for as many streams as it is told, and for its share of the time") {
  struct Row {
    std::vector<std::string> words;
    const char* asks;
  };
  for (const Row& row : std::vector<Row>{{{"--streams", "3", "--seconds", "5"}, "begin 3 2000"},
                                         {{}, "begin 8 4000"}}) {
    const auto listener = listen_on("127.0.0.1", 0);
    REQUIRE(listener);
    const pid_t client = ::fork();
    REQUIRE(client >= 0);
    if (client == 0) {
      ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
      ::setenv(probe_token_variable, token, 1);
      std::vector<std::string> words{"tcp-connect", "127.0.0.1", "--port",
                                     std::to_string(port_of(*listener))};
      words.insert(words.end(), row.words.begin(), row.words.end());
      ::_exit(run_probe(words));
    }
    auto guest = accept_from(*listener, in(10s));
    REQUIRE(guest);
    const auto asked = guest->receive_line(in(10s));
    REQUIRE(asked);
    CHECK(*asked == std::string("muster-probe 1 ") + token + " " + row.asks);
    ::kill(client, SIGKILL);
    ::waitpid(client, nullptr, 0);
  }
}

TEST_CASE("the connecting half waits for one that begins to serve later") {
  TcpServeOptions options = serving();
  {
    const auto listener = listen_on("127.0.0.1", 0);
    REQUIRE(listener);
    options.port = port_of(*listener);
  }
  const pid_t late = ::fork();
  REQUIRE(late >= 0);
  if (late == 0) {
    ::usleep(200'000);
    ::_exit(serve_tcp_probe(options) ? 0 : 1);
  }
  CHECK(connect_tcp_probe(connecting(options.port)));
  int status = -1;
  ::waitpid(late, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a partner that dies ends the probe at once") {
  ServingChild server(serving());
  TcpConnectOptions options = connecting(server.port());
  options.time = 30s;
  options.grace = 30s;
  const pid_t killer = ::fork();
  REQUIRE(killer >= 0);
  if (killer == 0) {
    ::usleep(300'000);
    server.signal(SIGKILL);
    ::_exit(0);
  }
  const auto begun = std::chrono::steady_clock::now();
  CHECK_FALSE(connect_tcp_probe(options));
  CHECK(std::chrono::steady_clock::now() - begun < 20s);
  ::waitpid(killer, nullptr, 0);
}

TEST_CASE("a partner that stands still ends the probe in time") {
  ServingChild server(serving());
  server.signal(SIGSTOP);
  TcpConnectOptions options = connecting(server.port());
  options.grace = 200ms;
  const auto begun = std::chrono::steady_clock::now();
  const auto outcome = connect_tcp_probe(options);
  REQUIRE_FALSE(outcome);
  CHECK_THAT(outcome.error().message, ContainsSubstring("no answer in time"));
  CHECK(std::chrono::steady_clock::now() - begun < 15s);
}

TEST_CASE("a client that goes away after its greeting ends the serving half in time") {
  TcpServeOptions options = serving();
  options.grace = 200ms;
  ServingChild server(options);
  {
    auto socket = connect_to("127.0.0.1", server.port(), in(5s));
    REQUIRE(socket);
    REQUIRE(socket->send_all(std::string("muster-probe 1 ") + token + " begin 2 100\n", in(5s)));
    CHECK(socket->receive_line(in(5s)));
  }
  const Outcome outcome = server.outcome();
  CHECK_FALSE(outcome.is_good);
  CHECK_THAT(std::string(outcome.why), ContainsSubstring("not all streams came"));
}

TEST_CASE("tokens are long enough, short enough, and plain") {
  CHECK(is_probe_token(token));
  CHECK_FALSE(is_probe_token(""));
  CHECK_FALSE(is_probe_token("short"));
  CHECK_FALSE(is_probe_token("with a space"));
  CHECK_FALSE(is_probe_token("with\nline"));
  CHECK_FALSE(is_probe_token(std::string(129, 'x')));
}
