// Which processes are an attempt's, how they are ended, and what counts as proof.

#include "launcher/agent/keeper/processes.h"
#include "tests/catch.h"
#include "tests/launcher/agent/fake_host.h"

using namespace muster;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr pid_t agent_pid = 4'999'999;

struct Stopped {
  Stopped() : stop(table), now(seconds{1000}) {}
  pid_t add() { return table.add(agent_pid).info.pid; }
  ProcessInfo info(pid_t pid) const { return table.processes.at(pid).info; }
  void pass(milliseconds time) {
    now += time;
    stop.step(now, find);
  }
  FakeProcesses table;
  AttemptStop stop;
  AttemptStop::Clock::time_point now;
  AttemptStop::Find find = [this] { return table.scan(); };
};

ProcessMarks marks_of_job() {
  ProcessMarks marks;
  marks.agent = agent_pid;
  marks.is_token = [](const std::string& token) { return token == "c.n.job.0"; };
  marks.socket_path = "/home/agent.sock";
  marks.spool_prefix = "/home/attempts/job/0/";
  return marks;
}

ProcessSigns signs(const std::string& token, const std::string& socket = "/home/agent.sock") {
  return {"A=1" + std::string(1, '\0') + "MUSTER_TOKEN=" + token + '\0' +
              "MUSTER_AGENT_SOCKET=" + socket + '\0',
          {},
          ""};
}

}  // namespace

TEST_CASE("one scan that finds nothing proves nothing") {
  Stopped stopped;
  const pid_t rank = stopped.add();
  stopped.stop.kill_now(stopped.now);
  stopped.table.misses_next_scan = true;  // the process forked while /proc was read
  stopped.pass(milliseconds{0});
  CHECK(stopped.table.sent_to(rank) == std::vector<int>{SIGSTOP, SIGKILL});
  CHECK_FALSE(stopped.stop.proven());
  stopped.pass(milliseconds{1});
  REQUIRE(stopped.stop.proven());
  CHECK(stopped.stop.proven()->unkillable.empty());
  CHECK(stopped.table.scans == 4);  // missed, found, and two that are empty
}

TEST_CASE("the scan that ends the grace is the first of two") {
  Stopped stopped;
  stopped.stop.begin({}, {seconds{10}, seconds{10}}, stopped.now);
  stopped.table.misses_next_scan = true;
  const pid_t rank = stopped.add();
  stopped.pass(milliseconds{0});
  CHECK_FALSE(stopped.stop.proven());
  CHECK_FALSE(stopped.table.is_alive_now(rank));
}

TEST_CASE("a process that survives SIGKILL is named, and not told as gone") {
  Stopped stopped;
  const pid_t rank = stopped.add();
  stopped.table.processes.at(rank).is_unkillable = true;
  stopped.stop.kill_now(stopped.now);
  stopped.pass(seconds{59});
  CHECK(stopped.stop.is_active());
  CHECK_FALSE(stopped.stop.proven());
  stopped.pass(seconds{1});
  REQUIRE(stopped.stop.proven());
  CHECK(stopped.stop.proven()->unkillable == std::vector{describe(stopped.info(rank))});
  // Asked again, it is tried again; what has gone meanwhile is proven gone.
  stopped.table.processes.at(rank).is_unkillable = false;
  stopped.stop.begin({}, {seconds{10}, seconds{10}}, stopped.now);
  CHECK_FALSE(stopped.stop.proven());
  stopped.pass(milliseconds{0});
  stopped.pass(milliseconds{1});
  REQUIRE(stopped.stop.proven());
  CHECK(stopped.stop.proven()->unkillable.empty());
}

TEST_CASE("proof that nothing is left is not taken back") {
  Stopped stopped;
  stopped.stop.kill_now(stopped.now);
  stopped.pass(milliseconds{0});
  REQUIRE(stopped.stop.proven());
  stopped.stop.begin({}, {seconds{10}, seconds{10}}, stopped.now);
  CHECK(stopped.stop.proven());
  CHECK_FALSE(stopped.stop.is_active());
}

TEST_CASE("all are stopped before the first is killed, so that none forks away") {
  Stopped stopped;
  const pid_t first = stopped.add();
  const pid_t second = stopped.add();
  stopped.table.processes.at(second).forks_left = 1;
  kill_processes(stopped.table, stopped.table.scan());
  using Sent = FakeProcesses::Sent;
  CHECK(
      stopped.table.sent ==
      std::vector<Sent>{{first, SIGSTOP}, {second, SIGSTOP}, {first, SIGKILL}, {second, SIGKILL}});
  CHECK(stopped.table.processes.empty());
}

TEST_CASE("ranks have their grace; what is left has five seconds more, then none") {
  Stopped stopped;
  const pid_t rank = stopped.add();
  const pid_t worker = stopped.add();
  for (const pid_t pid : {rank, worker}) stopped.table.processes.at(pid).ignores_term = true;
  stopped.stop.begin({stopped.info(rank)}, {seconds{10}, seconds{10}}, stopped.now);
  CHECK(stopped.stop.is_in_grace());
  stopped.pass(milliseconds{9999});
  CHECK(stopped.table.sent.empty());
  stopped.pass(milliseconds{1});
  CHECK(stopped.table.sent_to(worker) == std::vector<int>{SIGTERM, SIGCONT});
  CHECK_FALSE(stopped.table.is_alive_now(rank));
  CHECK_FALSE(stopped.stop.is_in_grace());
  stopped.pass(milliseconds{4999});
  CHECK(stopped.table.is_alive_now(worker));
  CHECK_FALSE(stopped.stop.is_killing());
  stopped.pass(milliseconds{1});
  CHECK_FALSE(stopped.table.is_alive_now(worker));
  CHECK(stopped.stop.is_killing());
  stopped.pass(milliseconds{1});
  CHECK(stopped.stop.proven());
}

TEST_CASE("the grace is over when the last rank is") {
  Stopped stopped;
  const pid_t rank = stopped.add();
  const pid_t other = stopped.add();
  stopped.stop.begin({stopped.info(rank), stopped.info(other)}, {seconds{10}, seconds{10}},
                     stopped.now);
  stopped.table.end(rank, 0);
  stopped.pass(milliseconds{1});
  CHECK(stopped.stop.is_in_grace());
  stopped.table.end(other, 0);
  stopped.pass(milliseconds{1});
  CHECK(stopped.stop.proven());
}

TEST_CASE("the grace is extended while ranks save, up to its limit, and never cut") {
  Stopped stopped;
  const pid_t rank = stopped.add();
  stopped.stop.begin({stopped.info(rank)}, {seconds{10}, seconds{30}}, stopped.now);
  const auto begin = stopped.now;
  stopped.stop.extend(begin + seconds{5});
  stopped.pass(seconds{9});
  CHECK(stopped.stop.is_in_grace());
  stopped.stop.extend(begin + seconds{90});
  stopped.pass(milliseconds{20'999});
  CHECK(stopped.stop.is_in_grace());
  stopped.pass(milliseconds{1});
  CHECK_FALSE(stopped.stop.is_in_grace());
}

TEST_CASE("asked to stop twice, the sooner end counts") {
  Stopped stopped;
  const pid_t rank = stopped.add();
  stopped.stop.begin({stopped.info(rank)}, {seconds{100}, seconds{300}}, stopped.now);
  stopped.stop.begin({}, {seconds{2}, seconds{4}}, stopped.now);
  stopped.stop.begin({}, {seconds{50}, seconds{50}}, stopped.now);
  stopped.stop.extend(stopped.now + seconds{90});
  stopped.pass(milliseconds{3999});
  CHECK(stopped.stop.is_in_grace());
  stopped.pass(milliseconds{1});
  CHECK_FALSE(stopped.stop.is_in_grace());
}

TEST_CASE("ranks that leave get SIGKILL at the end of their grace and nothing before") {
  Stopped stopped;
  const pid_t rank = stopped.add();
  stopped.stop.begin({stopped.info(rank)}, {seconds{1}, seconds{1}, true}, stopped.now);
  stopped.pass(milliseconds{999});
  CHECK(stopped.table.sent.empty());
  stopped.pass(milliseconds{1});
  CHECK(stopped.table.sent_to(rank) == std::vector<int>{SIGSTOP, SIGKILL});
}

TEST_CASE("who takes the number of a rank is not its rank") {
  Stopped stopped;
  const pid_t rank = stopped.add();
  const ProcessInfo known = stopped.info(rank);
  stopped.table.processes.at(rank).info.start_ticks += 7;
  CHECK_FALSE(stopped.table.is_alive(known));
  CHECK_FALSE(stopped.table.signal(known, SIGKILL));
  stopped.table.processes.at(rank).info = known;
  CHECK(stopped.table.is_alive(known));
  stopped.table.processes.at(rank).info.state = 'Z';
  CHECK_FALSE(stopped.table.is_alive(known));
  stopped.table.processes.at(rank).info.threads = 2;  // its main thread has ended before others
  CHECK(stopped.table.is_alive(known));
}

TEST_CASE("a process is an attempt's by its group, its token, its pipe or its agent") {
  FakeProcesses table;
  ProcessMarks marks = marks_of_job();
  const auto finds = [&](pid_t pid) {
    for (const ProcessInfo& found : find_attempt_processes(table, marks)) {
      if (found.pid == pid) return true;
    }
    return false;
  };
  const pid_t stranger = table.add(1).info.pid;
  CHECK_FALSE(finds(stranger));
  const pid_t marked = table.add(1, signs("c.n.job.0")).info.pid;
  CHECK(finds(marked));
  CHECK_FALSE(finds(table.add(1, signs("c.n.job.1")).info.pid));
  marks.takes_orphans = false;  // job.1 runs
  CHECK_FALSE(finds(table.add(agent_pid, signs("c.n.job.1")).info.pid));
  CHECK_FALSE(finds(table.add(1, signs("c.n.job.0", "/other/agent.sock")).info.pid));
  CHECK(finds(table.add(1, {"", {"", "/home/attempts/job/0/rank-0.pipe"}, ""}).info.pid));
  CHECK_FALSE(finds(table.add(1, {"", {"/home/attempts/job/1/rank-0.pipe"}, ""}).info.pid));
  marks.members = {stranger};
  CHECK(finds(stranger));
  marks.members = {agent_pid};
  table.processes[agent_pid].info.pid = agent_pid;
  table.processes[agent_pid].info.threads = 1;
  CHECK_FALSE(finds(agent_pid));
  table.processes.at(marked).info.state = 'X';
  CHECK_FALSE(finds(marked));
}

TEST_CASE("what descends from the agent without a mark belongs to the attempt that owns it") {
  FakeProcesses table;
  ProcessMarks marks = marks_of_job();
  const pid_t orphan = table.add(agent_pid).info.pid;
  const pid_t below = table.add(orphan).info.pid;
  const auto found = [&] { return find_attempt_processes(table, marks).size(); };
  CHECK(found() == 2);
  marks.takes_orphans = false;  // another attempt runs too
  CHECK(found() == 0);
  marks.sessions = {orphan};
  CHECK(found() == 2);
  marks.other_sessions = {below};
  CHECK(found() == 1);
  marks.takes_orphans = true;
  marks.sessions = {};
  marks.other_sessions = {orphan};
  CHECK(found() == 0);  // what is below it is the other's too
  table.processes.at(orphan).info.flags = 0x00200000;
  marks.other_sessions = {};
  CHECK(found() == 1);
}

TEST_CASE("what a process of the attempt started is the attempt's, the agent dead or not") {
  FakeProcesses table;
  ProcessMarks marks = marks_of_job();
  marks.takes_orphans = false;
  const pid_t login = table.add(1).info.pid;
  const pid_t marked = table.add(login, signs("c.n.job.0")).info.pid;
  const pid_t below = table.add(marked).info.pid;
  const pid_t forged = table.add(below, signs("bogus")).info.pid;
  const pid_t nested = table.add(forged, signs("c.n.job.0", "/nested/agent.sock")).info.pid;
  const pid_t left = table.add(1).info.pid;
  table.processes.at(left).info.session = marked;
  const pid_t of_login = table.add(marked + 1000).info.pid;
  table.processes.at(of_login).info.session = login;
  const auto found = [&] {
    std::set<pid_t> pids;
    for (const auto& one : find_attempt_processes(table, marks)) pids.insert(one.pid);
    return pids;
  };
  CHECK(found() == std::set<pid_t>{marked, below, forged, nested, left});
  // The leader of a session dies, another of the session has the marks.
  table.processes.at(below).signs = signs("c.n.job.0");
  table.processes.at(below).info.session = marked;
  table.processes.erase(marked);
  CHECK(found() == std::set<pid_t>{below, forged, nested, left});
  table.processes.erase(below);
  CHECK(found().empty());
  marks.begun_sessions = {marked};  // seen before
  CHECK(found() == std::set<pid_t>{left});
  table.add(1).info.pid = marked;  // a stranger took its number
  CHECK(found().empty());
}

TEST_CASE("a token that no attempt has hides no process that the agent started") {
  FakeProcesses table;
  ProcessMarks marks = marks_of_job();
  const pid_t forged = table.add(agent_pid, signs("bogus")).info.pid;
  const pid_t own =
      table.add(agent_pid, {"MUSTER_TOKEN=health" + std::string(1, '\0'), {}, ""}).info.pid;
  const auto found = find_attempt_processes(table, marks);
  REQUIRE(found.size() == 1);
  CHECK(found[0].pid == forged);
  CHECK(table.is_alive_now(own));
}

TEST_CASE("all that an agent started descends from it, others' processes do not") {
  FakeProcesses table;
  const pid_t agent = table.add(1).info.pid;
  const pid_t rank = table.add(agent).info.pid;
  const pid_t worker = table.add(rank).info.pid;
  const pid_t dead = table.add(agent).info.pid;
  table.processes.at(dead).info.state = 'Z';
  table.add(1);
  std::set<pid_t> found;
  for (const ProcessInfo& one : find_descendants(table, agent)) found.insert(one.pid);
  CHECK(found == std::set<pid_t>{rank, worker});
}

TEST_CASE("the children of a rank are signalled with it while it is a shell, and only then") {
  FakeProcesses table;
  const ProcessInfo rank = table.add(1, {"", {}, "/usr/bin/bash"}).info;
  const pid_t child = table.add(rank.pid).info.pid;
  table.add(child);
  const auto children = children_of_shell(table, rank);
  REQUIRE(children.size() == 1);
  CHECK(children[0].pid == child);
  table.processes.at(child).info.state = 'Z';
  CHECK(children_of_shell(table, rank).empty());
  table.processes.at(child).info.state = 'S';
  table.processes.at(rank.pid).signs.program = "/usr/bin/python3";
  CHECK(children_of_shell(table, rank).empty());
}
