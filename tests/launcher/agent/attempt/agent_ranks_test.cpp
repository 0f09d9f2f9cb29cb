// Ranks as a controller sees them: environment, output, exits.
#include <chrono>
#include <csignal>
#include <set>

#include "launcher/agent/node/process_scan.h"
#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;

namespace {

struct Running {
  explicit Running(const std::string& name = "n1") : node(name) { client.emplace(node.begin()); }
  void start(const StartRanks& request) {
    const auto done = client->ask<StartDone>(request);
    REQUIRE(done.error == "");
  }
  RankEnded end_of(std::int64_t rank) {
    REQUIRE(client->wait([&] { return client->ended().contains(rank); }));
    return client->ended()[rank];
  }
  AttemptClean clean(const StopAttempt& stop = a_stop()) {
    const auto clean = client->ask<AttemptClean>(stop);
    REQUIRE(client->fault == "");
    return clean;
  }
  TestNode node;
  std::optional<AgentClient> client;
};

}  // namespace

TEST_CASE("a rank's output and exit code arrive") {
  Running agent;
  agent.start(a_start("echo out; echo err >&2; exit 7"));
  const RankEnded ended = agent.end_of(0);
  CHECK(ended.status.code == 7);
  CHECK(ended.status.signal == 0);
  CHECK_FALSE(ended.asked_to_stop);
  CHECK(ended.last_lines == std::vector<std::string>{"out", "err"});
  CHECK(agent.clean().unkillable.empty());
  CHECK(agent.client->output(0) == "out\nerr\n");
}

TEST_CASE("a command that does not exist ends with 127 and a signal is reported as one") {
  Running agent;
  auto start = a_start("[ $RANK = 0 ] && exec no-such-program-anywhere; kill -SEGV $$", 2);
  agent.start(start);
  CHECK(agent.end_of(0).status.code == 127);
  CHECK(agent.end_of(1).status.signal == SIGSEGV);
}

TEST_CASE("environment values arrive byte for byte") {
  Running agent;
  std::string every_byte;
  for (int byte = 1; byte < 256; ++byte) every_byte.push_back(static_cast<char>(byte));
  auto start = a_start("env -0");
  start.environment = {{"EVERY", every_byte},
                       {"QUOTES", "'\"`$(id)\\\n;&|"},
                       {"LARGE", std::string(100'000, 'x')},
                       {"EMPTY", ""}};
  agent.start(start);
  REQUIRE(agent.end_of(0).status.ok());
  agent.clean();
  const std::string output = std::string(1, '\0') + agent.client->output(0);
  for (const auto& [name, value] : start.environment) {
    CHECK(output.find('\0' + name + "=" + value + '\0') != std::string::npos);
  }
  CHECK(output.find(std::string(1, '\0') + "MUSTER_JOB=job" + '\0') != std::string::npos);
  CHECK(output.find(std::string(1, '\0') + "MUSTER_RESUME_FROM=" + '\0') != std::string::npos);
}

TEST_CASE("what the kernel cannot pass on is named, and is the job's own doing") {
  Running agent;
  auto start = a_start("true");
  std::string named = "HUGE";
  SECTION("one variable") {
    start.environment["HUGE"] = std::string(200'000, 'x');
  }
  SECTION("all together") {
    const std::string text(100'000, 'x');
    for (int i = 0; i < 70; ++i) start.environment["V" + std::to_string(i)] = text;
    named = "bytes together";
  }
  const auto done = agent.client->ask<StartDone>(start);
  CHECK_THAT(done.error, ContainsSubstring(named));
  CHECK(done.lasting);
}

TEST_CASE("output that is no text arrives as it is, in order") {
  Running agent;
  agent.start(a_start("printf '\\377\\000\\001\\n'; seq 1 200000; printf 'no newline \\303'"));
  REQUIRE(agent.end_of(0).status.ok());
  agent.clean();
  std::string expected("\xff\0\x01\n", 4);
  for (int i = 1; i <= 200000; ++i) expected += std::to_string(i) + "\n";
  expected += "no newline \xc3";
  CHECK((agent.client->output(0) == expected));
}

TEST_CASE("one line of 100 MB arrives whole and fast") {
  Running agent;
  agent.client->keeps_output = false;
  const auto begin = std::chrono::steady_clock::now();
  agent.start(a_start("head -c 100000000 /dev/zero | tr '\\0' x"));
  REQUIRE(agent.end_of(0).status.ok());
  agent.clean();
  CHECK(agent.client->output_bytes == 100000000);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  WARN("100 MB in " << took.count() << " s: " << 100 / took.count() << " MB/s");
}

TEST_CASE("placeholders, parameters and the resume argument are filled in on the node") {
  Running agent;
  auto start = a_start("echo \x01inputs.data\x02 \x01outputs.model\x02 $AZUREML_PARAMETER_lr");
  start.inputs["data"].path = "/no/such/place";
  start.inputs["lr"].is_literal = true;
  start.inputs["lr"].literal = "0.1";
  start.outputs["model"];
  start.resume_argument = "--resume {checkpoint} --step {step}";
  start.resume_from = CheckpointRef{42, "/ckpt/s000000042-g1"};
  agent.start(start);
  REQUIRE(agent.end_of(0).status.ok());
  agent.clean();
  CHECK(agent.client->output(0) == "/no/such/place " + agent.node.job_directory("job") +
                                       "/outputs/model 0.1 --resume /ckpt/s000000042-g1 "
                                       "--step 42\n");
}

TEST_CASE("files below ./outputs and ./logs are collected") {
  Running agent;
  agent.start(
      a_start("mkdir -p outputs/deep; echo model > outputs/deep/m; echo log > logs/l; "
              "echo lost > elsewhere"));
  REQUIRE(agent.end_of(0).status.ok());
  agent.clean();
  const auto done = agent.client->ask<CollectDone>(CollectOutputs{JobId{"job"}, AttemptId{}});
  CHECK(done.error == "");
  CHECK(agent.client->files()["outputs/deep/m"] == "model\n");
  CHECK(agent.client->files()["logs/l"] == "log\n");
  for (const auto& [path, text] : agent.client->files()) CHECK(text != "lost\n");
}

TEST_CASE("a command beside a rank has its environment, directory and input") {
  Running agent;
  auto start = a_start("echo here > marker; exec sleep 1000");
  start.environment["COLOUR"] = "blue";
  agent.start(start);
  REQUIRE(eventually(
      [&] { return read_file(agent.node.job_directory("job") + "/code-0/marker") != ""; }));
  agent.client->send(
      ExecStart{"e1",
                JobId{"job"},
                AttemptId{},
                RankId{0},
                {"sh", "-c", "cat marker; echo $COLOUR; cat; echo bad >&2; exit 5"}});
  agent.client->send(ExecInput{"e1"}, "typed\n");
  const auto ended = agent.client->ask<ExecEnded>(ExecInput{"e1"});
  CHECK(ended.status.code == 5);
  CHECK(agent.client->exec_output()["e1"] == "here\nblue\ntyped\n");
  CHECK(agent.client->exec_output()["e1!"] == "bad\n");

  agent.client->send(ExecStart{"e2", JobId{"job"}, AttemptId{}, RankId{0}, {"sleep", "1000"}});
  const auto killed = agent.client->ask<ExecEnded>(ExecStop{"e2"});
  CHECK(killed.status.signal == SIGKILL);
  agent.clean(a_stop(std::chrono::milliseconds{0}));
}

TEST_CASE("ports differ between jobs and agents of one machine and are never 6000") {
  Running agent;
  Running second("n2");
  std::set<int> seen;
  for (auto* one : {&agent, &second}) {
    for (const char* job : {"a", "b"}) {
      const auto done =
          one->client->ask<PortsDone>(ReservePorts{JobId{job}, AttemptId{}, 2, 5998, 6012});
      REQUIRE(done.error == "");
      for (const int port : done.ports) {
        CHECK(port != 6000);
        CHECK(seen.insert(port).second);
      }
    }
  }
  const auto refused =
      agent.client->ask<PortsDone>(ReservePorts{JobId{"c"}, AttemptId{}, 50, 5998, 6012});
  CHECK_THAT(refused.error, ContainsSubstring("of 50 ports"));
}

TEST_CASE("the start gate names what is missing") {
  Running agent;
  CheckNode request;
  request.job.value = "job";
  request.programs = {"sh", "no-such-interpreter"};
  request.expected_host = "another-host";
  const auto done = agent.client->ask<CheckDone>(request);
  REQUIRE(done.failures.size() == 2);
  CHECK(done.failures[0].check == "host.name");
  CHECK_THAT(done.failures[1].message, ContainsSubstring("no-such-interpreter"));
}

TEST_CASE("a stopped rank is told of within seconds, looked at when asked, and told again") {
  Running agent;
  agent.start(a_start("echo $$; exec sleep 1000", 2));
  REQUIRE(agent.client->wait([&] { return !agent.client->output(1).empty(); }));
  const auto pid = static_cast<pid_t>(std::stoi(agent.client->output(1)));
  REQUIRE(eventually([&] { return read_process(pid)->name == "sleep"; }));
  REQUIRE(::kill(pid, SIGSTOP) == 0);
  const auto news = agent.client->expect<RankActivity>();
  REQUIRE(news.ranks.size() == 1);
  CHECK(news.ranks[0].rank == RankId{1});
  CHECK(news.ranks[0].doing == Doing::stopped);
  CHECK(news.ranks[0].process == std::to_string(pid) + " (sleep)");
  const auto seen = agent.client->ask<RanksLookedAt>(
      LookAtRanks{JobId{"job"}, AttemptId{0}, {RankId{1}, RankId{0}}, RankId{1}});
  REQUIRE(seen.ranks.size() == 2);
  CHECK_THAT(seen.ranks[0].lines.at(0), ContainsSubstring("is stopped by a signal (T)"));
  CHECK_THAT(seen.ranks[1].lines.at(0), ContainsSubstring("is asleep (S)"));

  agent.client.emplace(agent.node.greeted());
  const auto again = agent.client->expect<RankActivity>();
  CHECK(again.ranks.size() == 2);
  agent.clean(a_stop(std::chrono::seconds{5}));
  CHECK(agent.client->ended().at(1).status.signal == SIGTERM);
}
