// What the program is told to look at when a person asks for a node's health.
#include "launcher/agent/health/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <thread>

#include "launcher/agent/node/peer.h"
#include "tests/catch.h"
#include "tests/launcher/agent/health/measure_alone.h"

using namespace muster;

namespace {

using Words = std::vector<std::string>;

bool has(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

LookAtHealth a_look() {
  LookAtHealth look;
  look.wanted.phase = "qualification";
  look.wanted.is_idle = true;
  look.wanted.checks = {"ib.*", "--root"};
  return look;
}

// Somebody of another user has the claim, for as long as this lives.
class Stranger {
 public:
  static constexpr uid_t user = 65'534;

  Stranger() {
    int told[2];
    REQUIRE(::pipe(told) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      BenchmarkClaim claim;
      const bool has_it = ::setuid(user) == 0 && claim.take();
      static_cast<void>(::write(told[1], has_it ? "+" : "-", 1));
      ::pause();
      ::_exit(0);
    }
    char word = 0;
    REQUIRE(::read(told[0], &word, 1) == 1);
    REQUIRE(word == '+');
    ::close(told[0]);
    ::close(told[1]);
  }
  Stranger(const Stranger&) = delete;
  ~Stranger() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

// The part of an agent that runs probes; here they end at once.
struct MeasuredNode {
  MeasuredNode() { run.path = "/"; }
  // How many run then.
  std::size_t measure(const std::string& id, const std::string& token) {
    MeasureNode probe;
    probe.id = id;
    probe.is_probe = true;
    probe.words = {"--list-tests"};
    probe.token = token;
    looks.measure(probe, false, {});
    return looks.sessions().size();
  }
  boost::asio::io_context io;
  ControllerLine line;
  ExecSessions execs{io, line};
  RunDirectory run;
  EndingSessions ending{std::chrono::milliseconds(200)};
  HealthCommand looks{run, execs, ending};
};

}  // namespace

TEST_CASE("a free node is looked at as asked") {
  const Words words = health_run_arguments(a_look(), false, "/run/state");
  CHECK(Words(words.begin(), words.begin() + 2) == Words{"health", "run"});
  CHECK(has(words, "--output=json"));
  CHECK(has(words, "--state=/run/state"));
  CHECK(has(words, "--phase=qualification"));
  CHECK(has(words, "--idle"));
  CHECK(has(words, "--check=ib.*"));
  CHECK(has(words, "--check=--root"));  // no option of its own
  CHECK_FALSE(has(words, "--during-job"));
  CHECK_FALSE(has(words, "--profile=-"));
}

TEST_CASE("beside ranks neither the phase nor the word of a person counts") {
  const Words words = health_run_arguments(a_look(), true, "/run/state");
  CHECK(has(words, "--during-job"));
  CHECK_FALSE(has(words, "--idle"));
  CHECK_FALSE(has(words, "--phase=qualification"));
}

TEST_CASE("a profile comes by standard input and stands alone") {
  LookAtHealth look;
  look.profile = "profile: secret-site\n";
  const Words words = health_run_arguments(look, false, "s");
  CHECK(has(words, "--profile=-"));
  CHECK(has(words, "--no-base-profile"));
  for (const std::string& word : words) CHECK(word.find("secret") == word.npos);
}

TEST_CASE(
    "a measurement is `health active` with the words that it was sent, and the profile alone") {
  MeasureNode measure;
  measure.words = {"--only", "cpu"};
  measure.profile = "profile: secret-site\n";
  const Words words = benchmark_arguments(measure, "/run/state");
  CHECK(Words(words.begin(), words.begin() + 2) == Words{"health", "benchmark"});
  CHECK(Words(words.end() - 2, words.end()) == Words{"--only", "cpu"});
  CHECK(has(words, "--output=json"));
  CHECK(has(words, "--state=/run/state"));
  CHECK(has(words, "--profile=-"));
  CHECK(has(words, "--no-base-profile"));
  for (const std::string& word : words) CHECK(word.find("secret") == word.npos);
}

TEST_CASE("a probe has its words alone: its token is no argument") {
  MeasureNode measure;
  measure.is_probe = true;
  measure.words = {"tcp-serve", "--port", "18700"};
  measure.token = "secret-of-a-run";
  CHECK(benchmark_arguments(measure, "s") ==
        Words{"agent", "probe", "tcp-serve", "--port", "18700"});
}

TEST_CASE("one of a host measures at a time, and whoever gave up lets the next one") {
  measure_alone();
  BenchmarkClaim mine;
  BenchmarkClaim theirs;
  REQUIRE(mine.take());
  CHECK(mine.take());
  CHECK_FALSE(theirs.take());
  mine.give_back();
  CHECK(theirs.take());
  CHECK_FALSE(mine.take());
}

TEST_CASE("whoever has the claim is named when it is another user") {
  measure_alone();
  BenchmarkClaim mine;
  BenchmarkClaim theirs;
  REQUIRE(theirs.take());
  CHECK_FALSE(mine.take());
  CHECK(mine.whose().empty());
  theirs.give_back();
  if (::geteuid() != 0) return;  // nobody else can become another user
  const Stranger stranger;
  CHECK_FALSE(mine.take());
  CHECK(mine.whose() == ", by process " + std::to_string(stranger.pid()) + " of user " +
                            std::to_string(Stranger::user));
}

TEST_CASE("a claim that one process holds for longer than any measurement is not believed") {
  measure_alone();
  BenchmarkClaim mine;
  BenchmarkClaim theirs;
  REQUIRE(theirs.take());
  const auto asked_for = [&](std::chrono::minutes from, std::chrono::minutes time) {
    bool has_it = false;
    for (auto at = from; at <= from + time && !has_it; at += std::chrono::minutes(1)) {
      has_it = mine.take(at);
    }
    return has_it;
  };
  using std::chrono::minutes;
  constexpr minutes almost{8 * 60 - 1};
  CHECK_FALSE(asked_for(minutes{100}, almost));
  CHECK(mine.whose() == ", for 7 h 59 min at least");
  // Nobody asked meanwhile: it may be another measurement.
  CHECK_FALSE(asked_for(minutes{700}, almost));
  CHECK(asked_for(minutes{700} + almost + minutes{1}, minutes{1}));
}

TEST_CASE("a process measures for as long as one of its claims is held") {
  measure_alone();
  CHECK_FALSE(BenchmarkClaim::is_held_here());
  {
    BenchmarkClaim mine;
    REQUIRE(mine.take());
    CHECK(BenchmarkClaim::is_held_here());
    mine.give_back();
    CHECK_FALSE(BenchmarkClaim::is_held_here());
    REQUIRE(mine.take());
  }
  CHECK_FALSE(BenchmarkClaim::is_held_here());
}

TEST_CASE("probes of one run measure side by side; one that names no run is no other's mate") {
  measure_alone();
  MeasuredNode node;
  const std::string token = GENERATE("", "a-token-of-16-ch");
  const std::size_t mates = token.empty() ? 1 : 2;
  REQUIRE(node.measure("h1", token) == 1);
  CHECK(node.measure("h2", token) == mates);
  CHECK(node.measure("h3", "another-token-16") == mates);
  for (const pid_t pid : std::set(node.looks.sessions())) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

// Nobody reaps it here: as one that hangs in the kernel.
TEST_CASE("a probe that was killed and does not end keeps others from measuring for a while only") {
  measure_alone();
  MeasuredNode node;
  HealthCommand& looks = node.looks;
  REQUIRE(node.measure("h1", "") == 1);
  const pid_t pid = *looks.sessions().begin();
  BenchmarkClaim another;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  looks.poll();
  CHECK_FALSE(another.take());  // nobody has killed it
  looks.stop("h1");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  looks.poll();
  CHECK(another.take());
  CHECK(looks.sessions().contains(pid));
  ::waitpid(pid, nullptr, 0);
}
