// What an agent tells its controller: how ranks ended, how far they are, what they leave.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "launcher/agent/attempt/exit_log.h"
#include "launcher/agent/attempt/mpi_launch.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/keeper/keeper.h"
#include "runtime/protocol/membership.h"
#include "tests/catch.h"
#include "tests/launcher/agent/fake_host.h"
#include "tests/launcher/staging/folder.h"

using namespace muster;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

std::string stats_of(const FakeHost& host) {
  return host.run->path + "/attempts/job/0/vitals/";
}

StartRanks an_mpi_job() {
  StartRanks start = a_start("true", 2);
  start.mpi = MpiLaunch{{"h1", "h2"}, 2};
  return start;
}

// Of two ranks, on the node of mpirun (0) or another.
class AnMpiJob {
 public:
  AnMpiJob(FakeHost& host, int node_index) : host_(host) {
    StartRanks start = an_mpi_job();
    start.node_index = node_index;
    const auto done = host.ask<StartDone>(start);
    REQUIRE(done.error == "");
    if (node_index == 0) mpirun_ = host.processes.processes.rbegin()->first;
  }
  pid_t mpirun() const { return mpirun_; }
  std::string directory() const { return host_.run->path + "/attempts/job/0"; }
  std::string exits() const { return exit_log_path(directory()); }
  // As the wrapper does; the agent has read of it.
  pid_t rank_begins(int rank) {
    ProcessSigns signs;
    signs.environment = "MUSTER_TOKEN=" + host_.run->controller + ".n1.job.0" + '\0' +
                        "MUSTER_AGENT_SOCKET=" + host_.run->socket_path() + '\0';
    const pid_t pid = host_.processes.add(mpirun_ == 0 ? 1 : mpirun_, signs).info.pid;
    append_exit_log(exits(), RankStart{RankId{rank}, pid});
    host_.pass(milliseconds{25});
    return pid;
  }

 private:
  FakeHost& host_;
  pid_t mpirun_ = 0;
};

std::string members(std::uint64_t epoch) {
  return format_membership({epoch, {{0, "10.0.0.1", 4567, "n1"}}});
}

}  // namespace

TEST_CASE("the end of a rank is told after all that it has written") {
  GreetedHost host;
  const pid_t rank = host.start();
  const std::string words(60'000, 'w');
  for (int i = 0; i < 4; ++i) host.say(words);
  host.exits(rank, 9);
  REQUIRE(host.await<RankEnded>());
  CHECK(host.client->output(0).size() == 4 * words.size());
  CHECK(host.client->bytes_before_end(0) == static_cast<std::int64_t>(4 * words.size()));
  host.pass(milliseconds{500});
  CHECK(host.is_silent_about<RankEnded>());  // once
}

TEST_CASE("how a rank ended is told by the agent after the one that saw it") {
  GreetedHost host;
  const pid_t rank = host.start(a_start("true", 2));
  const pid_t other = rank - 1;
  host.exits(other, 5);
  REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().contains(0); }));
  host.processes.end(rank, SIGKILL);
  host.processes.dead.clear();
  host.serve();
  host.hello();
  REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().contains(0); }));
  CHECK(host.client->ended()[0].status.code == 5);
  CHECK_FALSE(host.client->ended()[0].asked_to_stop);
  CHECK(host.client->ended()[0].span);  // of the same boot: when it was
  CHECK_FALSE(host.client->ended().contains(1));
}

TEST_CASE("steps and metrics are told once, and again over another connection") {
  GreetedHost host;
  host.start();
  std::ofstream(stats_of(host) + "heartbeat-0") << "12\n";
  std::ofstream(stats_of(host) + "metrics-0.jsonl") << "{\"step\": 12}\n{\"st";
  host.pass(milliseconds{500});
  REQUIRE(host.client->progress().size() == 1);
  CHECK(host.client->progress()[0].step == 12);
  CHECK(host.client->progress()[0].metrics == std::vector<std::string>{"{\"step\": 12}"});
  host.pass(milliseconds{500});
  CHECK(host.client->progress().size() == 1);
  host.hello();
  host.pass(milliseconds{500});
  REQUIRE(host.client->progress().size() == 1);
  CHECK(host.client->progress()[0].step == 12);
  CHECK(host.client->progress()[0].metrics.empty());
}

TEST_CASE("what a program wrote for TensorBoard is told before the attempt is clean") {
  GreetedHost host;
  const pid_t rank = host.start();
  const AttemptLayout layout = layout_of(*host.run, {JobId{"job"}, AttemptId{0}});
  std::filesystem::create_directories(layout.code + "/runs");
  std::ofstream(layout.code + "/runs/metrics.csv") << "step,loss\r\n7,0.5\r\n";
  host.exits(rank, 0);
  host.ask<AttemptClean>(a_stop());
  REQUIRE(host.client->progress().size() == 2);
  const Progress& told = host.client->progress()[0];
  CHECK(told.metrics == std::vector<std::string>{R"({"loss":0.5,"step":7})"});
  CHECK(told.is_read_off);
  CHECK(host.client->progress()[1].step == 7);
}

TEST_CASE("of muster's own trainer nothing is read off") {
  GreetedHost host;
  StartRanks start = a_start("true", 1);
  start.saves.format = "muster";
  const pid_t rank = host.start(start);
  const AttemptLayout layout = layout_of(*host.run, {JobId{"job"}, AttemptId{0}});
  std::filesystem::create_directories(layout.code + "/runs");
  std::ofstream(layout.code + "/runs/metrics.csv") << "step,loss\r\n7,0.5\r\n";
  host.exits(rank, 0);
  host.ask<AttemptClean>(a_stop());
  CHECK(host.client->progress().empty());
}

TEST_CASE("what ranks print is searched before the attempt is clean") {
  GreetedHost host;
  StartRanks start = a_start("true", 1);
  start.metrics_regex = {"step (?P<step>\\d+) loss (?P<loss>\\S+)"};
  const pid_t rank = host.start(start);
  host.say("step 3 loss 0.5\nstep 4 loss nan\n");
  host.exits(rank, 0);
  host.ask<AttemptClean>(a_stop());
  REQUIRE(host.client->progress().size() == 2);
  CHECK(host.client->progress()[0].metrics ==
        std::vector<std::string>{R"({"loss":0.5,"step":3})", R"({"loss":null,"step":4})"});
  CHECK(host.client->progress()[1].step == 4);
}

TEST_CASE("a rank's last step is told before its end") {
  GreetedHost host;
  const pid_t rank = host.start();
  std::ofstream(stats_of(host) + "heartbeat-0") << "77\n";
  host.exits(rank, 1);
  REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().contains(0); }));
  REQUIRE_FALSE(host.client->progress().empty());
  CHECK(host.client->progress().back().step == 77);
  CHECK(host.client->ended()[0].evidence.last_step == 77);
}

TEST_CASE("a last step without a line end is told, for nobody writes on") {
  GreetedHost host;
  const pid_t rank = host.start();
  std::ofstream(stats_of(host) + "heartbeat-0") << "12";
  host.pass(milliseconds{500});
  CHECK(host.client->progress().empty());
  host.pass(milliseconds{500});
  REQUIRE(host.client->progress().size() == 1);
  CHECK(host.client->progress()[0].step == 12);
  std::ofstream(stats_of(host) + "heartbeat-0") << "77";
  host.exits(rank, 1);
  REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().contains(0); }));
  CHECK(host.client->progress().back().step == 77);
  CHECK(host.client->ended()[0].evidence.last_step == 77);
}

TEST_CASE("ranks that leave no record end with mpirun, and it is said so") {
  GreetedHost host;
  host.ask<StartDone>(an_mpi_job());
  REQUIRE(host.processes.started.size() == 1);  // mpirun alone
  CHECK(host.processes.started[0].argv[0] == "mpirun");
  const pid_t mpirun = host.processes.processes.rbegin()->first;
  SECTION("it fails") {
    host.exits(mpirun, 7);
    REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().size() == 2; }));
    CHECK(host.client->ended()[1].status.code == 7);
  }
  SECTION("it succeeds without them, which is no success of theirs") {
    host.exits(mpirun, 0);
    REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().size() == 2; }));
    CHECK(host.client->ended()[0].status.code == 1);
  }
  CHECK(host.client->ended()[0].evidence.with_mpirun);
}

TEST_CASE("shared memory that others can write to is not the ranks'") {
  const bool is_open = GENERATE(false, true);
  GreetedHost host;
  const AttemptLayout layout = layout_of(*host.run, {JobId{"job"}, AttemptId{}});
  std::filesystem::create_directory(layout.mpi_shared_memory);
  std::filesystem::permissions(layout.mpi_shared_memory,
                               std::filesystem::perms(is_open ? 0777 : 0700));
  host.ask<StartDone>(an_mpi_job());
  const auto rank = read_mpi_rank_file(mpi_rank_file_path(layout.spool, RankId{0}));
  remove_scratch(layout);
  REQUIRE(rank);
  CHECK(rank->environment.contains("OMPI_MCA_btl_sm_backing_directory") != is_open);
}

TEST_CASE("ranks under mpirun that ended before they were told to did so by themselves") {
  GreetedHost host;
  AnMpiJob job(host, 0);
  const pid_t first = job.rank_begins(0);
  const pid_t second = job.rank_begins(1);
  host.processes.end(first, 3 << 8);
  append_exit_log(job.exits(), RankExit{RankId{0}, {3, 0}});
  host.processes.processes.at(second).ignores_term = true;
  host.client->send(a_stop(seconds{10}));
  host.turn();
  host.processes.end(second, 0);
  append_exit_log(job.exits(), RankExit{RankId{1}, {0, 0}});
  host.pass(milliseconds{25});
  REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().size() == 2; }));
  CHECK(host.client->ended()[0].status.code == 3);
  CHECK_FALSE(host.client->ended()[0].asked_to_stop);
  CHECK_FALSE(host.client->ended()[0].evidence.with_mpirun);
  CHECK(host.client->ended()[1].asked_to_stop);
}

TEST_CASE("a rank that is gone with mpirun has no grace, whatever is left of it") {
  GreetedHost host;
  AnMpiJob job(host, 0);
  const pid_t rank = job.rank_begins(0);
  host.processes.processes.at(rank).ignores_term = true;
  host.exits(job.mpirun(), 7);
  REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().size() == 2; }));
  CHECK(host.client->ended()[0].status.signal == SIGKILL);  // it left no record
  CHECK(host.client->ended()[1].status.code == 7);          // it never began
  StopAttempt stop = a_stop(seconds{30});
  stop.signal = "SIGUSR1";
  host.client->send(stop);
  host.turn();
  CHECK(host.processes.sent_to(rank) == std::vector<int>{SIGTERM, SIGCONT});
}

TEST_CASE("the end of mpirun's daemon is told with its words, and ends the ranks that it began") {
  GreetedHost host;
  AnMpiJob job(host, 1);
  job.rank_begins(0);
  host.client->send(RemoteStart{"t1", JobId{"job"}, AttemptId{}, "orted -mca ess \"env\""});
  host.turn();
  REQUIRE(host.processes.started.size() == 1);
  const pid_t daemon = host.processes.processes.rbegin()->first;
  std::ofstream(job.directory() + "/mpi-daemon.log") << "no route\nto host\n";
  const int code = GENERATE(0, 4);
  host.exits(daemon, code);
  const auto ended = host.expect<RemoteStartEnded>();
  CHECK(ended.ticket == "t1");
  CHECK(ended.status.code == code);
  CHECK(ended.error == (code == 0 ? "" : "no route\nto host\n"));
  REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().contains(0); }));
  CHECK(host.client->ended()[0].status.signal == SIGKILL);
  CHECK(host.client->ended()[0].evidence.with_mpirun);
  CHECK_FALSE(host.client->ended().contains(1));  // another daemon may begin it
  const auto again = host.ask<RemoteStartEnded>(
      RemoteStart{"t2", JobId{"job"}, AttemptId{}, "orted -mca ess \"env\""});
  CHECK(again.ticket == "t2");
  CHECK(again.status.code == code);
  CHECK(host.processes.started.size() == 1);
}

TEST_CASE("an elastic attempt needs a port for each rank and a membership that can be read") {
  GreetedHost host;
  StartRanks start = a_start("true", 1);
  start.elastic = true;
  const auto refusal = [&] {
    host.client->send(start);
    const auto done = host.await<StartDone>();
    return done ? done->error : "none";
  };
  SECTION("no port") {
    CHECK(refusal() == "this node holds 0 ports for 1 ranks of an elastic job");
  }
  SECTION("no membership") {
    host.ask<PortsDone>(ReservePorts{JobId{"job"}, AttemptId{}, 1, 16900, 16999});
    start.members = "{";
    CHECK(refusal() == "the first membership of the attempt is malformed");
  }
  CHECK(host.processes.started.empty());
}

TEST_CASE("a membership is replaced by a newer one alone") {
  GreetedHost host;
  const auto ports = host.ask<PortsDone>(ReservePorts{JobId{"job"}, AttemptId{}, 1, 16900, 16999});
  REQUIRE(ports.ports.size() == 1);
  host.client->send(ReservePorts{JobId{"job"}, AttemptId{}, 1, 16900, 16999});
  CHECK(host.await<PortsDone>()->ports == ports.ports);  // asked again, they are the same
  StartRanks start = a_start("true", 1);
  start.elastic = true;
  start.members = members(3);
  host.start(start);
  CHECK(host.processes.started[0].environment.at("MUSTER_MEMBER_PORT") ==
        std::to_string(ports.ports[0]));
  const std::string path = host.run->path + "/attempts/job/0/members";
  const auto set = [&](std::int64_t epoch, const std::string& content) {
    host.client->send(SetMembers{JobId{"job"}, AttemptId{}, epoch, content});
    const auto done = host.await<MembersSet>();
    return done ? done->error : "none";
  };
  CHECK(read_file(path) == members(3));
  CHECK(set(2, members(2)) == "");  // late
  CHECK(read_file(path) == members(3));
  CHECK(set(5, members(4)) == "the membership of epoch 5 is malformed");
  CHECK(set(5, "{\"epoch\": 5, \"members\": [") == "the membership of epoch 5 is malformed");
  CHECK(set(4, members(4)) == "");
  CHECK(read_file(path) == members(4));
  host.hello();
  CHECK(set(3, members(3)) == "");  // over another connection
  CHECK(read_file(path) == members(4));
}

TEST_CASE("ports of an attempt are let go when it is over") {
  GreetedHost host;
  const auto reserve = [&](const char* job, int count) {
    host.client->send(ReservePorts{JobId{job}, AttemptId{}, count, 16880, 16889});
    return host.await<PortsDone>();
  };
  REQUIRE(reserve("job", 10)->error == "");
  CHECK_THAT(reserve("next", 1)->error, ContainsSubstring("only 0 of 1 ports"));
  host.ask<AttemptClean>(a_stop());
  CHECK(reserve("next", 1)->error == "");
}

TEST_CASE("a notice that the host goes is told once, when it changes and when it is taken back") {
  FakeHost host;
  const std::string file = host.home + "/notice";
  const auto greet = [&] {
    host.client = std::make_unique<AgentClient>(host.run->socket_path());
    host.ask<Welcome>(
        Hello{wire_version, host.run->controller, NodeId{"n1"}, seconds{60}, {}, file});
    return host.expect<NoticeSeen>();
  };
  CHECK(greet().over);  // what an earlier agent told may be over
  const auto told = [&](const std::string& text) {
    std::ofstream(file) << text;
    host.pass(milliseconds{500});
    return host.expect<NoticeSeen>();
  };
  const NoticeSeen first = told("");
  CHECK_FALSE(first.over);
  CHECK(first.source == file);
  CHECK_FALSE(first.leaves_in);
  const NoticeSeen second = told("120\n");
  CHECK_FALSE(second.over);
  REQUIRE(second.leaves_in);
  CHECK(*second.leaves_in > seconds{110});
  CHECK(*second.leaves_in <= seconds{120});
  host.pass(milliseconds{500});
  CHECK(host.is_silent_about<NoticeSeen>());
  CHECK(greet().leaves_in);
  std::filesystem::remove(file);
  host.pass(milliseconds{500});
  CHECK(host.expect<NoticeSeen>().over);
}

TEST_CASE("outputs on their way over a lost line are not sent on, but anew when asked for") {
  GreetedHost host;
  host.start();
  const std::string bytes(8 << 20, 'w');
  std::ofstream(host.home + "/jobs/" + host.run->controller + "/n1/job/outputs/model") << bytes;
  host.client->send(CollectOutputs{JobId{"job"}, AttemptId{}});
  for (int i = 0; i < 20; ++i) host.io->poll();  // as much as there is room for
  host.hello();
  host.pass(milliseconds{500});
  CHECK(host.client->files().empty());
  CHECK(host.client->fault.empty());
  CHECK(host.is_silent_about<CollectDone>());
  host.ask<CollectDone>(CollectOutputs{JobId{"job"}, AttemptId{}});
  CHECK((host.client->files().at("outputs/model") == bytes));
}

TEST_CASE("what a dead agent left is killed by its marks, and nothing beside it") {
  GreetedHost host;
  const pid_t rank = host.start();
  const auto marks = host.processes.processes.at(rank).signs;
  const pid_t orphan = host.processes.add(1, marks).info.pid;
  ProcessSigns elsewhere = marks;
  const std::size_t at = elsewhere.environment.find("MUSTER_AGENT_SOCKET=") + 20;
  elsewhere.environment.insert(at, "/another");
  const pid_t of_another = host.processes.add(1, elsewhere).info.pid;
  const pid_t unmarked = host.processes.add(::getpid()).info.pid;
  const pid_t below = host.processes.add(orphan).info.pid;
  const std::string pipe = host.run->path + "/attempts/job/0/rank-0.pipe";
  const pid_t writer = host.processes.add(1, {"", {pipe}, ""}).info.pid;
  // Started by a rank that died with the agent, without its environment and output.
  const pid_t bare = host.processes.add(1).info.pid;
  host.processes.processes.at(bare).info.session = rank;
  host.processes.processes.erase(rank);
  const pid_t of_login = host.processes.add(1).info.pid;
  host.processes.processes.at(of_login).info.session = rank + 1'000'000;
  CHECK(end_orphan_processes(host.processes, *host.run));
  for (const pid_t left : {orphan, below, writer, bare})
    CHECK_FALSE(host.processes.is_alive_now(left));
  for (const pid_t other : {of_another, unmarked, of_login})
    CHECK(host.processes.is_alive_now(other));
}

TEST_CASE("sessions that were begun in another boot are nobody's") {
  Folder folder;
  note_session(folder.path(), "boot-1", 17);
  note_session(folder.path(), "boot-2", 18);
  note_session(folder.path(), "boot-2", 19);
  CHECK(noted_sessions(folder.path(), "boot-2") == std::set<pid_t>{18, 19});
  CHECK(noted_sessions(folder.path() / "none", "boot-2").empty());
}

TEST_CASE("one agent at a time has a run directory, and the next waits for the one that holds it") {
  FakeHost host;
  auto lock = lock_run_directory(*host.run);
  REQUIRE(lock);
  REQUIRE(*lock);
  const auto second = lock_run_directory(*host.run);
  REQUIRE(second);
  CHECK_FALSE(*second);
  const auto waited = wait_for_agent_lock(*host.run);  // an agent answers: nothing to wait for
  REQUIRE(waited);
  CHECK_FALSE(*waited);
  (*lock)->reset();
  const auto next = lock_run_directory(*host.run);
  REQUIRE(next);
  CHECK(*next);
}

TEST_CASE("a process is read as the kernel shows it, whatever it calls itself") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_NAME, "a) Z 1 (b");
    ::pause();
    ::_exit(0);
  }
  HostProcesses table;
  REQUIRE(eventually([&] {
    const auto seen = table.find(child);
    return seen && seen->name == "a) Z 1 (b";
  }));
  const ProcessInfo seen = *table.find(child);
  CHECK(seen.parent == ::getpid());
  CHECK(seen.threads == 1);
  CHECK_FALSE(seen.is_dead());
  CHECK(table.is_alive(seen));
  ProcessInfo earlier = seen;
  --earlier.start_ticks;
  CHECK_FALSE(table.is_alive(earlier));
  CHECK_FALSE(table.signal(earlier, SIGKILL));
  REQUIRE(table.signal(seen, SIGSTOP));
  CHECK(eventually([&] { return table.find(child)->state == 'T'; }));
  REQUIRE(table.signal(seen, SIGKILL));
  CHECK(eventually([&] { return table.find(child)->is_dead(); }));
  CHECK_FALSE(table.is_alive(seen));
  int status = 0;
  CHECK(table.reap(status) == child);
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK_FALSE(table.find(child));
}
