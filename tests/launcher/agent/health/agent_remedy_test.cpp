// Resets and reboots: an agent runs the site's command once, without a shell, on an idle node.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "launcher/os/clocks.h"
#include "tests/catch.h"
#include "tests/launcher/agent/healthy_node.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// A script of the site that leaves a line with its arguments.
struct Script {
  std::string path;
  std::string trace;

  Script(const TestNode& node, const std::string& rest)
      : path(node.home() + "/reset.sh"), trace(node.home() + "/trace") {
    std::ofstream(path) << "#!/bin/sh\nprintf '<%s>' \"$@\" >>" << trace << "\necho >>" << trace
                        << "\n"
                        << rest << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  RunRemedy request(const std::string& id, std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(), path);
    return {id, RemedyStep::reset, "gpu3", std::move(arguments), Milliseconds{20'000}};
  }
};

void greet_watched(AgentClient& client, const TestNode& node) {
  HealthProfile profile;
  profile.name = "eight GPUs";
  profile.gpu = HealthyNode::profile().gpu;
  profile.checks["gpu.xid"].limits["clear_after_s"] = 0;
  Hello hello{wire_version, node.controller(), NodeId{node.name()}, Milliseconds{60000}, {}};
  hello.health = profile;
  client.ask<Welcome>(hello);
}

bool await_fault(AgentClient& client, const std::string& check, bool stands, seconds limit) {
  return client.wait(
      [&] {
        const auto told = client.await<FaultsTold>(milliseconds{1});
        const auto is_it = [&](const NodeFault& fault) { return fault.check == check; };
        return told && std::ranges::any_of(told->faults, is_it) == stands;
      },
      limit);
}

// Of the agent's children that read the node: those that there are, a line each, to `file`.
std::string list_helpers(const std::string& file) {
  return "agent=$(awk '/^PPid/ {print $2}' /proc/$PPID/status)\n"
         "for one in /proc/[0-9]*; do\n"
         "  grep -qs \"^PPid:.$agent\\$\" $one/status && tr '\\0' ' ' <$one/cmdline && echo\n"
         "done | grep read-health >" +
         file + "\ntrue";
}

}  // namespace

TEST_CASE("a remedy is carried out once, whoever asks how often") {
  TestNode node;
  AgentClient client = node.begin();
  const Script script(node, "sleep 0.3; echo done; exit 0");
  client.send(script.request("r1", {"-i", "3", "$(touch x); a b"}));
  const auto run = client.ask<RemedyRun>(script.request("r1"));
  CHECK(run.id == "r1");
  CHECK(run.error.empty());
  CHECK(run.status.ok());
  CHECK(run.lines == std::vector<std::string>{"done"});
  AgentClient again = node.greeted();
  const auto told = again.ask<RemedyRun>(script.request("r1"));
  CHECK(told.status.ok());
  CHECK(read_file(script.trace) == "<-i><3><$(touch x); a b>\n");
  again.ask<RemedyRun>(script.request("r2"));
  CHECK(read_file(script.trace) == "<-i><3><$(touch x); a b>\n<>\n");
}

TEST_CASE("a remedy is waited for no longer than it may take, and not for what it leaves") {
  TestNode node;
  AgentClient client = node.begin();
  SECTION("it leaves something behind that holds its output") {
    const Script script(node, "sleep 30 & echo begun; exit 0");
    client.send(script.request("r1"));
    const auto run = client.expect<RemedyRun>(seconds{10});
    CHECK(run.status.ok());
  }
  SECTION("it does not end") {
    const Script script(node, "exec sleep 60");
    RunRemedy request = script.request("r1");
    request.limit = Milliseconds{1000};
    client.send(request);
    const auto run = client.expect<RemedyRun>(seconds{10});
    CHECK(run.error == "its command did not end within 1 s");
    CHECK(run.status.signal == SIGKILL);  // it was begun
  }
}

TEST_CASE("an agent does not go from under a reset") {
  TestNode node;
  REQUIRE(node.serve() == 0);
  const std::string ended = node.home() + "/ended";
  const Script script(node, "sleep 3; echo >" + ended);
  AgentClient client = node.connect();
  SECTION("its controller is away for longer than the lease") {
    client.hello(node.controller(), node.name(), Milliseconds{1000});
    client.send(script.request("r1"));
    REQUIRE(eventually([&] { return std::filesystem::exists(script.trace); }));
    client = AgentClient(Fd());
  }
  SECTION("it is retired") {
    client.hello(node.controller(), node.name());
    client.send(script.request("r1"));
    REQUIRE(eventually([&] { return std::filesystem::exists(script.trace); }));
    client.send(Retire{});
    CHECK(client.await<RemedyRun>(seconds{10}));
  }
  CHECK(eventually([&] { return std::filesystem::exists(ended); }));
}

TEST_CASE("nothing is reset under ranks") {
  TestNode node;
  AgentClient client = node.begin();
  const Script script(node, "exit 0");
  client.ask<StartDone>(a_start("sleep 60"));
  client.send(script.request("r1"));
  auto run = client.await<RemedyRun>();
  REQUIRE(run);
  CHECK_THAT(run->error, ContainsSubstring("ranks run on node"));
  CHECK_FALSE(std::filesystem::exists(script.trace));
  client.ask<AttemptClean>(a_stop(milliseconds{0}));
  client.send(script.request("r2"));
  run = client.await<RemedyRun>();
  REQUIRE(run);
  CHECK(run->status.ok());
  CHECK(std::filesystem::exists(script.trace));
}

TEST_CASE("no GPU is held open under a reset, and the fault is over soon after it") {
  HealthyNode gpus;
  TestNode node;
  REQUIRE(node.serve() == 0);
  AgentClient client = node.connect();
  greet_watched(client, node);
  gpus.log_xid(3, 46);
  REQUIRE(await_fault(client, "gpu.xid", true, seconds{20}));
  const std::string helpers = node.home() + "/helpers";
  const Script script(node, list_helpers(helpers));
  const auto run = client.ask<RemedyRun>(script.request("r1"));
  CHECK(run.status.ok());
  CHECK(read_file(helpers).empty());
  CHECK(await_fault(client, "gpu.xid", false, seconds{20}));
  gpus.driver_says("gpu5.field.230 2");  // a helper reads again
  gpus.log_xid(5, 46);
  CHECK(await_fault(client, "gpu.recovery_action", true, seconds{20}));
}

TEST_CASE("no rank is started and nothing is measured while the node is reset") {
  TestNode node;
  AgentClient client = node.begin();
  const Script script(node, "while [ ! -e " + node.home() + "/go ]; do sleep 0.05; done");
  client.send(script.request("r1"));
  REQUIRE(eventually([&] { return std::filesystem::exists(script.trace); }));
  const auto refused = client.ask<StartDone>(a_start("true"));
  CHECK_THAT(refused.error, ContainsSubstring("is being reset or rebooted"));
  MeasureNode measure;
  measure.id = "m1";
  const auto unmeasured = client.ask<ExecEnded>(measure);
  CHECK(unmeasured.error == "it is being reset or rebooted");
  LookAtHealth look;
  look.id = "l1";
  const auto unseen = client.ask<ExecEnded>(look);
  CHECK(unseen.error == "it is being reset or rebooted");
  const auto second = client.ask<RemedyRun>(script.request("r2"));
  CHECK_THAT(second.error, ContainsSubstring("goes on"));
  std::ofstream(node.home() + "/go").close();
  REQUIRE(client.await<RemedyRun>());
  const auto done = client.ask<StartDone>(a_start("true", 1, "other"));
  CHECK(done.error.empty());
}
