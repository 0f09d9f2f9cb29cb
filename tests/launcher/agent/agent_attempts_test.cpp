// What an agent does with attempts: starts each once, stops and forgets them, tells how it went.
#include <filesystem>
#include <fstream>

#include "launcher/staging/content_hash.h"
#include "tests/catch.h"
#include "tests/launcher/agent/fake_host.h"

using namespace muster;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

bool is_there(const std::string& path) {
  return std::filesystem::exists(path);
}

std::string spool_of(const FakeHost& host) {
  return host.run->path + "/attempts/job/0";
}

std::string job_of(const FakeHost& host) {
  return host.home + "/jobs/" + host.run->controller + "/n1/job";
}

}  // namespace

TEST_CASE("a rank is started with its marks, its lease and its pipe, and once") {
  GreetedHost host;
  host.start(a_start("run it", 2));
  REQUIRE(host.processes.started.size() == 2);
  const SpawnRequest& first = host.processes.started[0];
  REQUIRE(first.argv.size() == 3);
  CHECK(first.argv[1] == "-c");
  CHECK(first.argv[2] == "run it");
  const auto& environment = first.environment;
  CHECK(environment.at("MUSTER_TOKEN") == host.run->controller + ".n1.job.0");
  CHECK(environment.at("MUSTER_AGENT_SOCKET") == host.run->socket_path());
  CHECK(environment.at("MUSTER_LEASE") == host.lease->path());
  CHECK(environment.at("RANK") == "0");
  CHECK(host.processes.started[1].environment.at("RANK") == "1");
  CHECK(first.directory == job_of(host) + "/code-0");
  host.client->send(a_start("run it", 2));  // its answer was not heard
  const auto again = host.expect<StartDone>();
  CHECK(again.error == "");
  CHECK(host.processes.started.size() == 2);
}

TEST_CASE("a rank's command has the paths of its inputs and outputs, which are there") {
  GreetedHost host;
  StartRanks start = a_start("train \x01inputs.text\x02 \x01outputs.model\x02");
  start.inputs["text"].path_kind = PathKind::local;
  start.inputs["text"].path = "/data/text";
  start.outputs["model"];
  host.start(start);
  const std::string model = job_of(host) + "/outputs/model";
  CHECK(host.processes.started[0].argv[2] == "train /data/text " + model);
  CHECK(is_there(model));
}

TEST_CASE("what cannot be started is told, and not tried again in the same attempt") {
  GreetedHost host;
  host.processes.start_error = "no memory";
  const auto done = host.ask<StartDone>(a_start("true"));
  CHECK_THAT(done.error, ContainsSubstring("no memory"));
  host.processes.start_error = "";
  host.ask<StartDone>(a_start("true"));
  CHECK(host.processes.started.empty());
}

TEST_CASE("an attempt that was stopped before it was started does not start") {
  GreetedHost host;
  host.ask<AttemptClean>(a_stop());
  const auto done = host.ask<StartDone>(a_start("true"));
  CHECK(done.error == "the attempt was stopped before");
  CHECK(host.processes.started.empty());
}

TEST_CASE("ranks get the signal once, may save, and are told as clean when all are gone") {
  GreetedHost host;
  const pid_t rank = host.start();
  host.processes.processes.at(rank).ignores_term = true;
  StopAttempt stop = a_stop(seconds{10});
  stop.signal = "SIGUSR1";
  host.client->send(stop);
  host.turn();
  CHECK(host.processes.sent_to(rank) == std::vector<int>{SIGUSR1, SIGCONT});
  host.client->send(stop);
  host.pass(seconds{9});
  CHECK(host.processes.sent_to(rank).size() == 2);
  CHECK(host.is_silent_about<AttemptClean>());
  host.exits(rank, 0);
  const auto clean = host.expect<AttemptClean>();
  CHECK(clean.unkillable.empty());
  REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().contains(0); }));
  CHECK(host.client->ended()[0].asked_to_stop);
}

TEST_CASE("a rank that ended before it was asked to did so by itself") {
  GreetedHost host;
  const pid_t rank = host.start();
  host.say("last words\n");
  host.exits(rank, 3);
  REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().contains(0); }));
  host.ask<AttemptClean>(a_stop());
  const RankEnded& ended = host.client->ended()[0];
  CHECK(ended.status.code == 3);
  CHECK_FALSE(ended.asked_to_stop);
  CHECK(ended.last_lines == std::vector<std::string>{"last words"});
  CHECK(host.client->output(0) == "last words\n");
}

TEST_CASE("processes that survive SIGKILL are named to the controller") {
  GreetedHost host;
  const pid_t rank = host.start();
  host.processes.processes.at(rank).is_unkillable = true;
  host.client->send(a_stop(milliseconds{0}));
  host.turn();
  host.pass(seconds{5});
  host.pass(seconds{59});
  CHECK(host.is_silent_about<AttemptClean>());
  host.pass(seconds{1});
  const auto clean = host.expect<AttemptClean>();
  REQUIRE(clean.unkillable.size() == 1);
  CHECK_THAT(clean.unkillable[0], ContainsSubstring(std::to_string(rank)));
}

TEST_CASE("an attempt is clean when the controller has all its output, not before") {
  GreetedHost host;
  const pid_t rank = host.start();
  host.client->acknowledges = false;
  const std::string large(output_window_bytes + (1 << 20), 'x');
  std::size_t said = 0;
  while (said < large.size()) {
    host.say(large.substr(said, 64 << 10));
    said += 64 << 10;
    host.pass(milliseconds{1});
  }
  host.exits(rank, 0);
  host.client->send(a_stop());
  host.pass(milliseconds{25});
  CHECK(host.is_silent_about<AttemptClean>());
  const auto size = static_cast<std::int64_t>(host.client->output(0).size());
  CHECK(size == output_window_bytes);
  host.client->acknowledges = true;
  host.ask<AttemptClean>(OutputAck{JobId{"job"}, AttemptId{}, RankId{0}, size});
  CHECK(host.client->output(0).size() == said);
}

TEST_CASE("the files of an attempt stay as long as one of its processes lives") {
  GreetedHost host;
  const pid_t rank = host.start();
  host.processes.processes.at(rank).is_unkillable = true;
  REQUIRE(is_there(spool_of(host) + "/start.frame"));
  host.client->send(ForgetAttempt{JobId{"job"}, AttemptId{}});
  host.client->send(ForgetJob{JobId{"job"}, true});
  host.turn();
  CHECK(host.processes.sent_to(rank) == std::vector<int>{SIGSTOP, SIGKILL});
  host.pass(seconds{50});
  CHECK(is_there(spool_of(host) + "/start.frame"));
  CHECK(is_there(job_of(host) + "/code-0"));
  CHECK(host.agent->has_left_nothing() == false);
  host.processes.processes.at(rank).is_unkillable = false;
  host.pass(milliseconds{25});
  host.pass(milliseconds{25});
  CHECK_FALSE(is_there(spool_of(host)));
  CHECK_FALSE(is_there(job_of(host)));
  CHECK(host.hello().held.empty());
}

TEST_CASE("an attempt is forgotten without its job's directory unless the job is over") {
  GreetedHost host;
  host.exits(host.start(), 0);
  host.turn();
  host.client->send(ForgetAttempt{JobId{"job"}, AttemptId{}});
  REQUIRE(host.turn_until(*host.client, [&] { return !is_there(spool_of(host)); }));
  CHECK(is_there(job_of(host) + "/outputs"));
  CHECK_FALSE(is_there(job_of(host) + "/code-0"));
}

TEST_CASE("what the ranks of a job that is over wrote goes only when it is safe elsewhere") {
  GreetedHost host;
  host.exits(host.start(), 0);
  host.turn();
  std::ofstream(job_of(host) + "/outputs/model") << "weights";
  host.client->send(ForgetJob{JobId{"job"}, false});
  host.pass(milliseconds{25});
  CHECK(is_there(job_of(host) + "/code-0"));  // its attempt is not forgotten yet
  host.client->send(ForgetAttempt{JobId{"job"}, AttemptId{}});
  REQUIRE(host.turn_until(*host.client, [&] { return !is_there(job_of(host) + "/logs"); }));
  CHECK(is_there(job_of(host) + "/outputs/model"));
  CHECK(host.hello().folders == std::vector<JobId>{{"job"}});
  host.client->send(ForgetJob{JobId{"job"}, true});
  REQUIRE(host.turn_until(*host.client, [&] { return !is_there(job_of(host)); }));
  CHECK(host.hello().folders.empty());
}

TEST_CASE("what an agent that died has left is not started again, and its output is kept") {
  GreetedHost host;
  const pid_t rank = host.start();
  host.say("kept\n");
  host.processes.end(rank, SIGKILL);
  host.processes.dead.clear();  // with its parent
  host.serve();
  CHECK(host.hello().holds_attempts);
  const auto done = host.ask<StartDone>(a_start("true"));
  CHECK_THAT(done.error, ContainsSubstring("an earlier agent of this node ran the attempt"));
  CHECK(host.processes.started.size() == 1);
  host.ask<AttemptClean>(a_stop());
  CHECK(host.client->output(0) == "kept\n");
}

TEST_CASE("what an agent that died has left and is alive is killed by the next one") {
  GreetedHost host;
  const pid_t rank = host.start();
  host.processes.processes.at(rank).info.parent = 1;
  host.serve();
  CHECK(host.processes.sent_to(rank) == std::vector<int>{SIGSTOP, SIGKILL});
  host.hello();
  host.ask<AttemptClean>(a_stop());
}

TEST_CASE("an orphan without a mark is the attempt's in whose session it is, beside others") {
  GreetedHost host;
  host.start(a_start("true", 1, "other"));
  StartRanks start = a_start("true", 1);
  SECTION("a rank's") {}
  SECTION("mpirun's") { start.mpi = MpiLaunch{{"h1", "h2"}, 1}; }
  SECTION("that of a daemon of mpirun") {
    start.mpi = MpiLaunch{{"h1", "h2"}, 1};
    start.node_index = 1;
  }
  host.ask<StartDone>(start);
  if (start.node_index == 1) {
    host.client->send(RemoteStart{"t", JobId{"job"}, AttemptId{}, "orted -mca ess \"env\""});
    host.turn();
  }
  REQUIRE(host.processes.started.size() == 2);
  const pid_t leader = host.processes.processes.rbegin()->first;
  FakeProcesses::Process& left = host.processes.add(::getpid());
  left.info.session = leader;
  const pid_t orphan = left.info.pid;
  const pid_t stranger = host.processes.add(::getpid()).info.pid;
  host.ask<AttemptClean>(a_stop(milliseconds{0}, "other"));
  CHECK(host.processes.is_alive_now(orphan));
  host.ask<StartDone>(a_start("true", 1, "another"));
  host.ask<AttemptClean>(a_stop(milliseconds{0}));
  CHECK_FALSE(host.processes.is_alive_now(leader));
  CHECK_FALSE(host.processes.is_alive_now(orphan));
  CHECK(host.processes.is_alive_now(stranger));
}

TEST_CASE("of two attempts the one that is stopped takes nothing of the other") {
  GreetedHost host;
  const pid_t first = host.start();
  StartRanks next = a_start("true");
  next.attempt = AttemptId{1};
  host.ask<StartDone>(next);
  const pid_t second = host.processes.processes.rbegin()->first;
  const pid_t unmarked = host.processes.add(::getpid()).info.pid;
  host.ask<AttemptClean>(a_stop(milliseconds{0}));
  CHECK_FALSE(host.processes.is_alive_now(first));
  CHECK(host.processes.is_alive_now(second));
  CHECK(host.processes.is_alive_now(unmarked));  // it may be the other's
  CHECK(host.processes.sent_to(second).empty());
}

TEST_CASE("a command beside a rank is refused once its attempt is being stopped") {
  GreetedHost host;
  const pid_t rank = host.start();
  host.processes.processes.at(rank).ignores_term = true;
  const auto asked = [&](const char* id, RankId beside) {
    host.client->send(ExecStart{id, JobId{"job"}, AttemptId{}, beside, {"true"}});
    return host.await<ExecEnded>();
  };
  const auto elsewhere = asked("e1", RankId{5});
  REQUIRE(elsewhere);
  CHECK(elsewhere->error == "rank 5 does not run on this node");
  host.client->send(a_stop(seconds{30}));
  host.turn();
  const auto refused = asked("e2", RankId{0});
  REQUIRE(refused);
  CHECK(refused->error == "the attempt does not run on this node");
}

TEST_CASE("members change forward only, and only of an elastic attempt that runs") {
  GreetedHost host;
  host.start();
  const auto set = host.ask<MembersSet>(SetMembers{JobId{"job"}, AttemptId{}, 2, "{}"});
  CHECK(set.error == "no elastic attempt was started on this node");
  const auto nowhere = host.ask<MembersSet>(SetMembers{JobId{"none"}, AttemptId{}, 2, "{}"});
  CHECK(nowhere.error == "the attempt does not run on node n1");
}

TEST_CASE("a blob of which a part came over a lost line is asked for anew over the next one") {
  FakeHost host;
  // Staging has no clock of its own.
  host.clock.passed += std::chrono::duration_cast<milliseconds>(boot_time() - host.clock.boot());
  host.serve();
  host.hello();
  const TreeEntry file{TreeEntry::Kind::file, "a.bin", 0644, 10, content_hash_of("0123456789"), {}};
  const StageTrees request{JobId{"job"}, AttemptId{}, {{"inputs/data", {file}, false}}};
  host.ask<WantBlobs>(request);
  host.client->send(BlobData{file.hash, 0, false}, "01234");
  host.turn();
  host.hello();
  host.client->send(BlobData{file.hash, 5, true}, "56789");
  host.client->send(request);
  std::optional<WantBlobs> wanted;
  std::optional<StageDone> done;
  REQUIRE(host.turn_until(*host.client, [&] {
    wanted = host.client->await<WantBlobs>(milliseconds{0});
    done = host.client->await<StageDone>(milliseconds{0});
    return wanted || done;
  }));
  CHECK(wanted);
  CHECK_FALSE(done);
}

TEST_CASE("a request that has nothing to wait for is answered before the next one") {
  GreetedHost host;
  host.start();
  host.client->send(RunRemedy{"r1", RemedyStep::reset, "gpu3", {"/bin/true"}, seconds{9}});
  host.ask<Pong>(Ping{7, std::nullopt});
  const auto refused = host.client->expect<RemedyRun>(milliseconds{0});
  CHECK(refused.error == "ranks run on node n1");
}
