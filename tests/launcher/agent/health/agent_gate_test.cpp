// What a gate measures before a job (health.start, health.failure): a real agent, and a program
// that says what the test wants to be measured.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/catch.h"
#include "tests/launcher/agent/health/measure_alone.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

HealthProfile with_floor(double gflops, std::vector<std::string> required = {}) {
  HealthProfile profile;
  profile.name = "site";
  profile.floors["cpu_gemm_gflops"] = gflops;
  profile.required = std::move(required);
  return profile;
}

std::string figure(double gflops) {
  return R"({"figures": [{"metric": "cpu_gemm_gflops", "device": "", "value": )" +
         std::to_string(gflops) + R"(, "unit": "GFLOP/s", "error": null}]})";
}

class Gate {
 public:
  explicit Gate(const HealthProfile& profile) : profile_(profile) {
    measure_alone();
    ::setenv("MUSTER_TEST_MEASURED", file().c_str(), 1);
    begin();
  }
  ~Gate() { ::unsetenv("MUSTER_TEST_MEASURED"); }
  Gate(const Gate&) = delete;

  void begin() {
    REQUIRE(node_.serve() == 0);
    client_.emplace(node_.connect());
    Hello hello{wire_version, node_.controller(), NodeId{node_.name()}, Milliseconds{60000}, {}};
    hello.health = profile_;
    client_->ask<Welcome>(hello);
  }
  void restart() {
    node_.kill_agent();
    begin();
  }
  void is_measured(const std::string& text) const { std::ofstream(file()) << text; }
  // A line each time it is asked, and when what lingered is gone.
  std::string history() const { return read_file(file() + ".asked"); }
  std::size_t times() const {
    const std::string asked = history();
    return static_cast<std::size_t>(std::count(asked.begin(), asked.end(), '\n'));
  }
  AgentClient& client() { return *client_; }

  void ask(int attempt = 0, bool measures = true, std::optional<milliseconds> failed_ago = {},
           const char* job = "job") {
    CheckNode check;
    check.job = JobId{job};
    check.attempt = AttemptId{attempt};
    check.with_health = true;
    check.measures = measures;
    check.failed_ago = failed_ago;
    client_->send(check);
  }
  // A measurement for attempt 0 has begun that leaves something behind.
  void lingers() {
    is_measured("linger");
    ask(0);
    REQUIRE(eventually([&] { return times() == 1; }));
  }
  // For a person.
  void measure(const std::string& id) {
    MeasureNode request;
    request.id = id;
    client_->send(request);
  }
  void stop(int attempt) {
    StopAttempt stop = a_stop(milliseconds{0});
    stop.attempt = AttemptId{attempt};
    client_->send(stop);
  }
  // The failures of what was measured.
  std::vector<std::string> answer() {
    const auto done = client_->expect<CheckDone>();
    std::vector<std::string> said;
    for (const CheckFailure& one : done.failures) {
      if (one.check.starts_with("perf.")) said.push_back(one.check + ": " + one.message);
    }
    return said;
  }
  std::vector<std::string> asked(bool measures = true) {
    ask(0, measures);
    return answer();
  }

 private:
  std::string file() const { return node_.home() + "/measured"; }

  HealthProfile profile_;
  TestNode node_;
  std::optional<AgentClient> client_;
};

using Said = std::vector<std::string>;

}  // namespace

TEST_CASE(
    "a node below a floor is refused at the gate, which names the figure, once measured twice") {
  Gate gate(with_floor(100));
  gate.is_measured(figure(20));
  CHECK(gate.asked(false).empty());
  CHECK(gate.times() == 0);
  const Said slow{
      "perf.cpu: cpu_gemm_gflops 20 GFLOP/s, expected >= 100 GFLOP/s, "
      "minimum of the profile"};
  CHECK(gate.asked() == slow);
  gate.is_measured(figure(120));
  CHECK(gate.asked() == slow);
  CHECK(gate.times() == 2);
  // Somebody has seen to it.
  gate.client().send(FaultsFixed{});
  CHECK(gate.asked().empty());
  CHECK(gate.times() == 3);
}

TEST_CASE("a figure that is bad once and good at once after is good") {
  Gate gate(with_floor(100, {"perf.cpu"}));
  gate.is_measured(figure(20) + "\nthen\n" + figure(120));
  CHECK(gate.asked().empty());
  CHECK(gate.times() == 2);
  CHECK(gate.asked().empty());
  CHECK(gate.times() == 2);
}

TEST_CASE("a bad figure that cannot be measured again is unknown, with the reason") {
  Gate gate(with_floor(100, {"perf.cpu"}));
  gate.is_measured(figure(20) + "\nthen\nthis host is not idle: gpu0 is used by process 7");
  CHECK(gate.asked() == Said{"perf.cpu: is unknown: cpu_gemm_gflops: it was bad once, and was "
                             "not measured again: this host is not idle: gpu0 is used by process "
                             "7"});
  // By the next agent neither: then it is bad twice.
  gate.restart();
  gate.is_measured(figure(21));
  CHECK(gate.asked() == Said{"perf.cpu: cpu_gemm_gflops 21 GFLOP/s, expected >= 100 GFLOP/s, "
                             "minimum of the profile"});
  CHECK(gate.times() == 3);
}

TEST_CASE("a node that met its floors is not measured again, by the next agent neither") {
  Gate gate(with_floor(100));
  gate.is_measured(figure(120));
  CHECK(gate.asked().empty());
  gate.restart();
  gate.is_measured(figure(1));
  CHECK(gate.asked().empty());
  CHECK(gate.times() == 1);
}

TEST_CASE("figures from before a failure are not believed, later ones are") {
  Gate gate(with_floor(100, {"perf.cpu"}));
  gate.is_measured(figure(120));
  CHECK(gate.asked().empty());
  gate.is_measured(figure(20));
  gate.ask(1, true, milliseconds{0});
  CHECK(gate.answer() == Said{"perf.cpu: cpu_gemm_gflops 20 GFLOP/s, expected >= 100 GFLOP/s, "
                              "minimum of the profile"});
  CHECK(gate.times() == 3);
  gate.is_measured(figure(120));
  gate.client().send(FaultsFixed{});
  CHECK(gate.asked().empty());
  gate.ask(2, true, seconds{3600});  // before this test began
  CHECK(gate.answer().empty());
  CHECK(gate.times() == 4);
  // Where nothing can be measured nothing is known.
  gate.is_measured("this host is not idle: gpu0 is used by process 7");
  gate.ask(3, true, milliseconds{0});
  CHECK(gate.answer() == Said{"perf.cpu: is unknown: cpu_gemm_gflops: this host is not idle: "
                              "gpu0 is used by process 7"});
  CHECK(gate.asked().empty());
}

TEST_CASE("a node that cannot be measured is refused where its profile requires that") {
  Gate lenient(with_floor(100));
  lenient.is_measured("this host is not idle: gpu0 is used by process 7");
  CHECK(lenient.asked().empty());
  Gate strict(with_floor(100, {"perf.cpu"}));
  strict.is_measured("this host is not idle: gpu0 is used by process 7");
  CHECK(strict.asked() ==
        Said{"perf.cpu: is unknown: cpu_gemm_gflops: this host is not idle: gpu0 is used by "
             "process 7"});
  strict.is_measured("{\"figures\": 7}");
  REQUIRE_THAT(strict.asked().at(0), ContainsSubstring("cannot be read"));
  // It took its time for that: the next gates do not wait for the same again.
  strict.is_measured(figure(120));
  REQUIRE_THAT(strict.asked().at(0), ContainsSubstring("cannot be read"));
  strict.client().send(FaultsFixed{});
  CHECK(strict.asked().empty());
}

TEST_CASE("a device without a figure stays unknown for the next gates, by the next agent as well") {
  Gate gate(with_floor(100, {"perf.cpu"}));
  gate.is_measured(
      R"({"figures": [{"metric": "cpu_gemm_gflops", "device": "a", "value": 120},)"
      R"( {"metric": "cpu_gemm_gflops", "device": "b", "value": null, "error": "bad sums"}]})");
  const Said unknown{"perf.cpu: is unknown on b: cpu_gemm_gflops: bad sums"};
  CHECK(gate.asked() == unknown);
  gate.is_measured(figure(120));
  CHECK(gate.asked() == unknown);
  gate.restart();
  CHECK(gate.asked() == unknown);
  CHECK(gate.times() == 1);
  gate.client().send(FaultsFixed{});
  CHECK(gate.asked().empty());
}

TEST_CASE("a gate that measures goes on over the deadline of the quick checks, until it is left") {
  Gate gate(with_floor(100));
  gate.is_measured("hang");
  gate.ask(0);
  REQUIRE(eventually([&] { return gate.times() == 1; }));
  gate.ask(0);  // the same again: it is waited for the one that runs
  CHECK_FALSE(gate.client().await<CheckDone>(seconds{11}));
  CHECK(gate.times() == 1);
  gate.is_measured(figure(120));
  gate.stop(0);
  gate.ask(1);
  CHECK(gate.answer().empty());
  CHECK(gate.times() == 2);
}

TEST_CASE("what was killed is gone before the next gate measures") {
  Gate gate(with_floor(100));
  gate.lingers();
  gate.is_measured(figure(120));
  gate.stop(0);
  gate.ask(1);
  CHECK(gate.answer().empty());
  CHECK(gate.history() == "asked\ngone\nasked\n");
}

TEST_CASE("a job that comes ends what measures for a person, and is checked when that is gone") {
  Gate gate(with_floor(100));
  gate.is_measured("linger");
  gate.measure("person");
  REQUIRE(eventually([&] { return gate.times() == 1; }));
  CHECK(gate.asked(false).empty());
  CHECK(gate.history() == "asked\ngone\n");
  const auto ended = gate.client().expect<ExecEnded>();
  CHECK(ended.id == "person");
  CHECK(ended.status.signal == SIGKILL);
}

TEST_CASE("a job that comes ends the gate of another, whose gang was given back") {
  Gate gate(with_floor(100));
  gate.lingers();
  gate.is_measured(figure(120));
  gate.ask(0, false, {}, "other");
  CHECK(gate.answer().empty());
  CHECK(gate.history() == "asked\ngone\n");
  gate.ask(1, true, {}, "other");
  CHECK(gate.answer().empty());
  CHECK(gate.history() == "asked\ngone\nasked\n");
}

TEST_CASE("who measures a node that no job has ends the gate of a gang that was given back") {
  Gate gate(with_floor(100));
  gate.lingers();
  gate.is_measured(figure(120));
  MeasureNode measure;
  measure.id = "person";
  const auto ended = gate.client().ask<ExecEnded>(measure);
  CHECK(ended.error.empty());
  CHECK(ended.status.code == 0);
  CHECK(gate.history() == "asked\ngone\nasked\n");
}

TEST_CASE("what resets an idle node waits for the end of a gate whose gang was given back") {
  Gate gate(with_floor(100));
  gate.lingers();
  gate.client().send(
      RunRemedy{"r1", RemedyStep::reset, "gpu3", {"/bin/true"}, Milliseconds{20'000}});
  const auto run = gate.client().expect<RemedyRun>(seconds{10});
  CHECK(run.status.ok());
  CHECK(gate.history() == "asked\ngone\n");
}

TEST_CASE("who measures waits for what was stopped before, and is told when that does not end") {
  Gate gate(with_floor(100));
  const auto measure = [&](const char* id, const std::string& text, const std::string& history) {
    gate.is_measured(text);
    gate.measure(id);
    REQUIRE(eventually([&] { return gate.history() == history; }));
  };
  const auto end_of = [&](const char* id) {
    const auto ended = gate.client().expect<ExecEnded>(seconds{10});
    CHECK(ended.id == id);
    return ended;
  };
  measure("1", "linger", "asked\n");
  gate.client().send(ExecStop{"1"});
  end_of("1");
  measure("2", "hold", "asked\ngone\nasked\n");
  gate.client().send(ExecStop{"2"});
  end_of("2");
  gate.measure("3");
  CHECK_THAT(end_of("3").error, ContainsSubstring("of what was measured before does not end"));
  CHECK(gate.history() == "asked\ngone\nasked\n");
  REQUIRE(eventually([&] { return gate.history() == "asked\ngone\nasked\ngone\n"; }));
}

TEST_CASE("nothing is measured for an attempt that was stopped while it was checked") {
  Gate gate(with_floor(100));
  gate.is_measured(figure(120));
  gate.ask(0);
  gate.stop(0);
  gate.answer();
  CHECK(gate.asked(false).empty());  // as long as such a check takes
  std::this_thread::sleep_for(seconds{1});
  CHECK(gate.times() == 0);
}

TEST_CASE("beside ranks nothing is measured, which is unknown") {
  Gate gate(with_floor(100, {"perf.cpu"}));
  gate.is_measured(figure(120));
  gate.client().ask<StartDone>(a_start("exec sleep 600"));
  gate.ask(7);
  CHECK(gate.answer() == Said{"perf.cpu: is unknown: cpu_gemm_gflops: ranks run there"});
  CHECK(gate.times() == 0);
}
