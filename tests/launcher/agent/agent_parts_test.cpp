// The agent's pure parts and those that only need a directory.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "health/checks/host/facts.h"
#include "health/checks/start_gate.h"
#include "launcher/agent/attempt/exit_log.h"
#include "launcher/agent/attempt/mpi_launch.h"
#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/keeper/processes.h"
#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/agent/keeper/spool.h"
#include "launcher/agent/node/process_scan.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/agent/node_check.h"
#include "launcher/agent/preemption_notice.h"
#include "launcher/agent/watch/checkpoint.h"
#include "launcher/agent/watch/progress.h"
#include "launcher/os/child.h"
#include "launcher/os/read_file.h"
#include "runtime/protocol/keyed_hash.h"
#include "scheduler/text/text.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace {

void append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

Spool a_spool(const FakeRoot& directory) {
  auto spool = Spool::open(directory.path(), RankId{3});
  REQUIRE(spool);
  REQUIRE(spool->make_pipe());
  return std::move(*spool);
}

// As a rank would.
void say(const Spool& spool, const std::string& text) {
  const Fd pipe(::open(spool.pipe()->path().c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(write_all(pipe.get(), text));
}

StartGateFacts a_healthy_node() {
  StartGateFacts facts;
  facts.host_name = "n1.cluster";
  facts.home = "/home/u/.muster";
  facts.free_disk_bytes = 100ll << 30;
  facts.memory_available_bytes = 8ll << 30;
  facts.now_ms = 1'000'000;
  return facts;
}

}  // namespace

TEST_CASE("a healthy node passes the start gate") {
  CHECK(judge_start_gate(a_healthy_node(), {"n1", 1'000'500, {}}).empty());
}

TEST_CASE("each failed check of the start gate says what was measured and what was wanted") {
  StartGateFacts facts = a_healthy_node();
  facts.home_error = "Read-only file system";
  facts.free_disk_bytes = 5 << 20;
  facts.memory_available_bytes.reset();
  facts.missing_programs = {"python3"};
  const auto failures = judge_start_gate(facts, {"n2", 1'003'000, {}});
  REQUIRE(failures.size() == 6);
  CHECK(failures[0].message == "the host calls itself n1.cluster, wanted n2");
  CHECK_THAT(failures[1].message, ContainsSubstring("Read-only"));
  CHECK(failures[2].message ==
        "5 MiB free on the disk of /home/u/.muster, wanted at least 1024 MiB");
  CHECK_THAT(failures[3].message, ContainsSubstring("cannot be read"));
  CHECK_THAT(failures[4].message, ContainsSubstring("3000 ms behind"));
  CHECK_THAT(failures[5].message, ContainsSubstring("python3"));
  CHECK(judge_start_gate(facts, {"n2", 1'003'000, {"all"}}).empty());
  CHECK(judge_start_gate(facts, {"n2", 1'003'000, {"host.disk"}}).size() == 5);
  StartGateWanted one{"n2", 1'003'000};
  one.only = {"host.mem", "host.disk", "gpu.count"};
  CHECK(judge_start_gate(facts, one).size() == 2);
  one.skip = {"host.mem"};
  REQUIRE(judge_start_gate(facts, one).size() == 1);
  CHECK(judge_start_gate(facts, one)[0].check == "host.disk");
}

TEST_CASE("memory is read from the kernel's text") {
  const char* text = "MemTotal:       24689164 kB\nMemAvailable:   1024 kB\n";
  CHECK(parse_meminfo(text, "MemAvailable") == 1024 * 1024);
  CHECK_FALSE(parse_meminfo(text, "Mem"));
}

TEST_CASE("a spool gives each byte once, from what is acknowledged") {
  const FakeRoot directory;
  auto spool = a_spool(directory);
  say(spool, "0123456789");
  REQUIRE(spool.take_in());
  CHECK(spool.take_chunk() == "0123456789");
  CHECK(spool.take_chunk() == "");
  spool.acknowledge(4);
  spool.rewind();
  CHECK(spool.take_chunk() == "456789");
  spool.acknowledge(99);  // no more than there is
  CHECK(spool.acked() == 10);
  say(spool, "ab");
  CHECK_FALSE(spool.has_sent_everything());
  auto next = Spool::open(directory.path(), RankId{3});  // of the next agent
  REQUIRE(next);
  REQUIRE(next->take_in_to(next->end()));
  CHECK(next->take_chunk() == "ab");
  CHECK(next->has_sent_everything());
  CHECK(next->last_lines(5) == std::vector<std::string>{"0123456789ab"});
}

TEST_CASE("a spool stops at its window and gives acknowledged space back") {
  const FakeRoot directory;
  auto spool = a_spool(directory);
  for (int i = 0; i < 320; ++i) {
    say(spool, std::string(64 << 10, 'x'));
    REQUIRE(*spool.take_in() == 64 << 10);
  }
  std::int64_t taken = 0;
  for (std::string chunk; !(chunk = spool.take_chunk()).empty();) {
    taken += static_cast<std::int64_t>(chunk.size());
  }
  CHECK(taken == output_window_bytes);
  spool.acknowledge(20 << 20);
  struct stat facts {};
  REQUIRE(::stat(spool.path().c_str(), &facts) == 0);
  CHECK(facts.st_blocks * 512 < 10 << 20);
}

TEST_CASE("a program that empties its output as it opens it takes nothing away") {
  const FakeRoot directory;
  auto spool = a_spool(directory);
  say(spool, "before\n");
  const Fd again(::open(spool.pipe()->path().c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  REQUIRE(write_all(again.get(), "warned\n"));  // of the same length
  say(spool, "after\n");
  REQUIRE(spool.take_in_to(spool.end()));
  CHECK(spool.take_chunk() == "before\nwarned\nafter\n");
}

TEST_CASE("a pipe whose reader and writers are all gone keeps its bytes while someone holds it") {
  const FakeRoot directory;
  std::optional<Spool> first = a_spool(directory);
  const Fd holder(::dup(first->pipe()->fd()));
  say(*first, "said");
  first.reset();
  auto next = Spool::open(directory.path(), RankId{3});
  REQUIRE(next);
  REQUIRE(next->take_in_to(next->end()));
  CHECK(next->take_chunk() == "said");
}

TEST_CASE("a pipe that is removed is nobody's any more, and its spool has what it held") {
  const FakeRoot directory;
  auto spool = a_spool(directory);
  const std::string path = spool.pipe()->path();
  say(spool, "said");
  REQUIRE(spool.take_in_to(spool.end()));
  CHECK(std::filesystem::exists(path));
  spool.remove_pipe();
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_FALSE(spool.pipe());
  CHECK(spool.end() == 4);
  CHECK(spool.take_chunk() == "said");
  spool.remove_pipe();
  auto next = Spool::open(directory.path(), RankId{3});
  REQUIRE(next);
  CHECK_FALSE(next->pipe());
}

TEST_CASE("what finds no room on the disk stays in the pipe") {
  const FakeRoot directory;
  auto pipe = OutputPipe::open(directory.path() + "/p");
  REQUIRE(pipe);
  REQUIRE(write_all(pipe->fd(), "bytes"));
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const auto refused = pipe->move_to(full.get(), 0, 100);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, ContainsSubstring("No space left"));
  CHECK(pipe->waiting_bytes() == 5);
  const Fd file(::open((directory.path() + "/f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  CHECK(*pipe->move_to(file.get(), 0, 100) == 5);
  CHECK(*pipe->move_to(file.get(), 5, 100) == 0);
  std::string text;
  REQUIRE(read_at(file.get(), 0, 100, text));
  CHECK(text == "bytes");
}

TEST_CASE("where a file cannot be spliced to, output is copied and none is lost") {
  const FakeRoot directory;
  auto pipe = OutputPipe::open(directory.path() + "/p");
  REQUIRE(pipe);
  const std::string bytes(100'000, 'x');
  REQUIRE(write_all(pipe->fd(), bytes));
  // The kernel refuses to splice to a file that is open for appending.
  const Fd file(
      ::open((directory.path() + "/f").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  std::int64_t size = 0;
  while (pipe->waiting_bytes() > 0) {
    const auto moved = pipe->move_to(file.get(), size, output_pipe_bytes);
    REQUIRE(moved);
    size += *moved;
  }
  std::string text;
  REQUIRE(read_at(file.get(), 0, 200'000, text));
  CHECK((text == bytes));
}

TEST_CASE("last lines are text whatever the bytes were") {
  CHECK(last_utf8_lines("a\n\nb\r\nc", 2) == std::vector<std::string>{"b", "c"});
  CHECK(to_utf8("\xff ok \xc3\xa9 \xed\xa0\x80 \xc0\x80") ==
        "\xef\xbf\xbd ok \xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("a token belongs to its own controller and node only") {
  RunDirectory run;
  run.controller = "c";
  run.node.value = "n";
  const std::string token = token_of(run, {JobId{"job"}, AttemptId{2}});
  CHECK(token == "c.n.job.2");
  CHECK(is_token_of_run(run, token));
  CHECK_FALSE(is_token_of_run(run, "c.n.m.job.2"));
  CHECK_FALSE(is_token_of_run(run, "c.n2.job.2"));
  run.node.value = "n.m";
  CHECK(is_token_of_run(run, "c.n.m.job.2"));
  CHECK_FALSE(is_token_of_run(run, "job.2"));
}

TEST_CASE("the exit log is read line by line as it grows") {
  const FakeRoot directory;
  const std::string path = exit_log_path(directory.path());
  ExitLogReader reader(path);
  CHECK(reader.read_new().empty());
  append_exit_log(path, RankStart{RankId{1}, 42});
  append(path, "ended 1 0 9 5");
  auto lines = reader.read_new();
  REQUIRE(lines.size() == 1);
  CHECK(std::get<RankStart>(lines[0]).pid == 42);
  append(path, "5 1\n");
  lines = reader.read_new();
  REQUIRE(lines.size() == 1);
  CHECK(std::get<RankExit>(lines[0]).status.signal == 9);
  CHECK(std::get<RankExit>(lines[0]).latest == RawTime{55});
  CHECK(std::get<RankExit>(lines[0]).earliest == RawTime{0});
}

TEST_CASE("each line of the exit log is read once") {
  const FakeRoot directory;
  const std::string path = exit_log_path(directory.path());
  ExitLogReader reader(path);
  for (const int rank : {1, 2, 3}) {
    append_exit_log(path, RankStart{RankId{rank}, 40 + rank});
    const auto lines = reader.read_new();
    REQUIRE(lines.size() == 1);
    CHECK(std::get<RankStart>(lines[0]).rank == RankId{rank});
  }
  CHECK(reader.read_new().empty());
}

TEST_CASE("the exit log keeps all of how a rank ended") {
  const FakeRoot directory;
  const std::string path = exit_log_path(directory.path());
  const RankExit written{RankId{3}, {0, SIGSEGV, true}, RawTime{70}, RawTime{60}, true,
                         true,      "1b2c-boot"};
  append_exit_log(path, written);
  const auto lines = ExitLogReader(path).read_new();
  REQUIRE(lines.size() == 1);
  const auto& read = std::get<RankExit>(lines[0]);
  CHECK(read.rank == written.rank);
  CHECK(read.status.signal == SIGSEGV);
  CHECK(read.status.core_dumped);
  CHECK(read.latest == RawTime{70});
  CHECK(read.earliest == RawTime{60});
  CHECK(read.asked_to_stop);
  CHECK(read.with_mpirun);
  CHECK(read.boot == "1b2c-boot");
}

TEST_CASE("a record of an older agent tells how a rank ended, not when; a torn one nothing") {
  const FakeRoot directory;
  const std::string path = exit_log_path(directory.path());
  append(path, "ended 1 7 0 55 1\nended 2 0\nnonsense\n\nended 3 0 9 55 0\n");
  const auto lines = ExitLogReader(path).read_new();
  REQUIRE(lines.size() == 2);
  const auto& first = std::get<RankExit>(lines[0]);
  CHECK(first.status.code == 7);
  CHECK(first.asked_to_stop);
  CHECK_FALSE(first.with_mpirun);
  CHECK(first.boot.empty());
  CHECK_FALSE(std::get<RankExit>(lines[1]).asked_to_stop);
}

TEST_CASE("what a wrapper must start survives its file byte for byte") {
  const FakeRoot directory;
  const MpiRankFile rank{"/code",
                         "/out",
                         "/exits",
                         {"bash", "-c", "a\nb \"c\""},
                         {{"EMPTY", ""}, {"BYTES", "\xff=\n"}}};
  const std::string path = mpi_rank_file_path(directory.path(), RankId{0});
  REQUIRE(write_mpi_rank_file(path, rank));
  const auto read = read_mpi_rank_file(path);
  REQUIRE(read);
  CHECK(read->argv == rank.argv);
  CHECK(read->environment == rank.environment);
  CHECK(read->exit_log_path == "/exits");
}

TEST_CASE("a wrapper's file that is not whole is none") {
  const FakeRoot directory;
  const std::string path = directory.path() + "/launch-0";
  CHECK_FALSE(read_mpi_rank_file(path));
  const auto is_read = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return read_mpi_rank_file(path).has_value();
  };
  REQUIRE(write_mpi_rank_file(path, {"/code", "/out", "/exits", {"bash"}, {{"A", "1"}}}));
  const std::string whole = text_of_file(path);
  for (std::size_t cut = 0; cut < whole.size(); ++cut) CHECK_FALSE(is_read(whole.substr(0, cut)));
  CHECK(is_read(whole));
  REQUIRE(write_mpi_rank_file(path, {"/code", "/out", "/exits", {}, {}}));
  CHECK_FALSE(read_mpi_rank_file(path));
}

TEST_CASE("processes of mpirun find their node's muster first, and its scratch space") {
  AttemptLayout layout;
  layout.spool = "/spool";
  layout.mpi_scratch = "/scratch";
  const Environment environment = mpi_environment(layout, "/bin/muster", {{"PATH", "/bin"}});
  CHECK(environment.at("PATH") == "/scratch:/bin");
  CHECK(environment.at("TMPDIR") == "/scratch");
  CHECK(environment.at(attempt_directory_name) == "/spool");
  CHECK(environment.at(program_name) == "/bin/muster");
  CHECK(mpi_environment(layout, "/bin/muster", {}).at("PATH") == "/scratch:");
}

TEST_CASE("mpirun is told names that no node shares with this machine") {
  CHECK(mpi_host_names({"local-0", "local-1", "vm", "10.0.0.3", "n.a", "local-1"}, "vm") ==
        std::vector<std::string>{"vm", "local-1", "muster-node-2", "muster-node-3", "muster-node-4",
                                 "muster-node-5"});
}

TEST_CASE("mpirun is told how many ranks each node has") {
  const auto said = [](const MpiLaunch& mpi) {
    std::string words;
    for (const std::string& word : mpirun_command({"h01", "h02"}, mpi)) words += " " + word;
    return words;
  };
  CHECK_THAT(said({{"h01", "h02"}, 2, {}}), ContainsSubstring(" -np 4 --host h01:2,h02:2 "));
  CHECK_THAT(said({{"h01", "h02"}, 2, {3, 1}}), ContainsSubstring(" -np 4 --host h01:3,h02:1 "));
  CHECK_THAT(said({{"h01", "h02"}, 1, {4, 1}}), ContainsSubstring(" -np 5 --host h01:4,h02:1 "));
}

TEST_CASE("what Open MPI's mpirun is told is said in the words of MPICH and Intel MPI") {
  const auto said = [](const MpiLaunch& mpi) {
    std::string words;
    for (const std::string& word : hydra_command(mpirun_command({"h01", "h02"}, mpi))) {
      words += word + " ";
    }
    return words;
  };
  MpiLaunch mpi{{"h01", "h02"}, 2, {}};
  mpi.arguments = {"-genv", "A=1"};
  CHECK_THAT(said(mpi), ContainsSubstring(
                            "mpirun -genvnone -wdir / -n 4 -hosts h01,h02 -ppn 2 -genv A=1 "
                            "sh -c exec"));
  mpi.processes = {3, 1};
  CHECK_THAT(said(mpi), ContainsSubstring(" -n 4 -hosts h01:3,h02:1 -genv A=1 sh -c "));
  CHECK(hydra_command({"mpirun", "--host"}) == std::vector<std::string>{"mpirun", "--host"});
}

TEST_CASE("mpirun of each version is told to ask the agent for its daemons") {
  const Environment settings = mpirun_settings(false);
  CHECK(settings.at("OMPI_MCA_plm_rsh_agent") == "muster agent mpi-start");
  CHECK(settings.at("PRTE_MCA_plm_ssh_agent").starts_with("muster agent mpi-start "));
  CHECK(settings.at("OMPI_MCA_plm") == "rsh");
  CHECK(settings.at("PRTE_MCA_plm") == "ssh");
  CHECK(settings.count("OMPI_MCA_btl_tcp_if_include") == 0);
  CHECK(mpirun_settings(true).at("OMPI_MCA_btl_tcp_if_include") == "lo");
}

TEST_CASE("whole lines of metrics are read once") {
  const FakeRoot directory;
  const std::string path = directory.path() + "/m";
  std::int64_t offset = 0;
  append(path, "{\"a\":1}\n{\"b\":");
  CHECK(read_new_lines(path, offset, 1000) == std::vector<std::string>{"{\"a\":1}"});
  append(path, "2}\n");
  CHECK(read_new_lines(path, offset, 1000) == std::vector<std::string>{"{\"b\":2}"});
  CHECK(read_new_lines(path, offset, 1000).empty());
}

TEST_CASE("metrics are read as far as there is room, and what has no end is passed over") {
  const FakeRoot directory;
  const std::string path = directory.path() + "/m";
  std::int64_t offset = 0;
  CHECK(read_new_lines(path, offset, 10).empty());  // there is none yet
  append(path, "one\n\ntwo\n" + std::string(25, 'x') + "\nlast\n");
  using Lines = std::vector<std::string>;
  CHECK(read_new_lines(path, offset, 10) == Lines{"one", "two"});
  CHECK(offset == 9);
  for (int i = 0; i < 2; ++i) CHECK(read_new_lines(path, offset, 10).empty());
  CHECK(offset == 29);
  CHECK(read_new_lines(path, offset, 10) == Lines{"xxxxx"});
  CHECK(read_new_lines(path, offset, 10) == Lines{"last"});
}

TEST_CASE("signals are known by each of their names") {
  CHECK(signal_number("SIGUSR1") == SIGUSR1);
  CHECK(signal_number("TERM") == SIGTERM);
  CHECK(signal_number("10") == 10);
  CHECK_FALSE(signal_number("SIGNONE"));
}

TEST_CASE("a variable is found in an environment block only as a whole") {
  const std::string block("AB=1\0A=2\0A=3", 12);
  CHECK(environment_entry(block, "A") == "2");
  CHECK_FALSE(environment_entry(block, "B"));
}

TEST_CASE("a home or run directory that another user may write to is refused") {
  const FakeRoot directory;
  const auto why_not = [&](const std::string& home) {
    const auto opened = open_run_directory(home, "c", NodeId{"n"});
    return opened ? std::string() : opened.error().message;
  };
  const std::string home = directory.path() + "/home";
  REQUIRE(why_not(home) == "");
  REQUIRE(::chmod(home.c_str(), 0755) == 0);  // others may look
  CHECK(why_not(home) == "");
  for (const std::string part : {"", "/run", "/run/c/n", "/jobs"}) {
    INFO(part);
    REQUIRE(::chmod((home + part).c_str(), 0722) == 0);
    CHECK_THAT(why_not(home), ContainsSubstring(home + part + " may be written to by others"));
    REQUIRE(::chmod((home + part).c_str(), 0700) == 0);
    if (::geteuid() != 0) continue;
    REQUIRE(::chown((home + part).c_str(), 65534, 65534) == 0);
    CHECK_THAT(why_not(home), ContainsSubstring("is a directory of user"));
    REQUIRE(::chown((home + part).c_str(), 0, 0) == 0);
  }
  CHECK(why_not(home) == "");
}

TEST_CASE("a home is named as a shell would, below the user's own where nothing is said") {
  const FakeRoot directory;
  const char* usual = std::getenv("HOME");
  const std::string before = usual == nullptr ? "" : usual;
  ::setenv("HOME", directory.path().c_str(), 1);
  const auto home_of = [](const std::string& home) {
    const auto opened = open_run_directory(home, "c", NodeId{"n"});
    return opened ? opened->home : opened.error().message;
  };
  CHECK(home_of("") == directory.path() + "/.muster");
  CHECK(home_of("~") == directory.path());
  CHECK(home_of("~/deep/er") == directory.path() + "/deep/er");
  CHECK(home_of(directory.path() + "/x") == directory.path() + "/x");
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  CHECK(home_of("relative") == std::filesystem::current_path().string() + "/relative");
  std::filesystem::current_path(here);
  if (usual == nullptr)
    ::unsetenv("HOME");
  else
    ::setenv("HOME", before.c_str(), 1);
  const auto opened = open_run_directory(directory.path(), "c", NodeId{"n"});
  REQUIRE(opened);
  CHECK(opened->path == directory.path() + "/run/c/n");
  CHECK(opened->socket_path() == directory.path() + "/run/c/n/agent.sock");
  for (const auto& [controller, node] :
       {std::pair{"", "n"}, {"c", ""}, {"a/b", "n"}, {"c", ".."}, {".", "n"}}) {
    CHECK_FALSE(open_run_directory(directory.path(), controller, NodeId{node}));
  }
  CHECK(is_plain_name("..."));
  CHECK(is_plain_name(std::string(255, 'x')));
  CHECK_FALSE(is_plain_name(std::string(256, 'x')));
  CHECK_FALSE(is_plain_name(std::string("a\0b", 3)));
}

TEST_CASE("the names of scratch directories in /tmp cannot be guessed, and stay the same") {
  const FakeRoot directory;
  const AttemptKey key{JobId{"job"}, AttemptId{}};
  const auto first = open_run_directory(directory.path() + "/one", "c", NodeId{"n"});
  const auto again = open_run_directory(directory.path() + "/one", "c", NodeId{"n"});
  REQUIRE(first);
  REQUIRE(again);
  CHECK(first->secret.size() == 33);
  CHECK(layout_of(*first, key).mpi_scratch == layout_of(*again, key).mpi_scratch);
  const std::string hash =
      hex_text(keyed_hash(first->secret, first->path + "\n" + token_of(*first, key)));
  CHECK(layout_of(*first, key).ray_scratch == "/tmp/muster-ray." + hash.substr(0, 16));
  std::filesystem::remove(first->path + "/secret");
  const auto other = open_run_directory(directory.path() + "/one", "c", NodeId{"n"});
  REQUIRE(other);
  CHECK(layout_of(*first, key).mpi_scratch != layout_of(*other, key).mpi_scratch);
}

TEST_CASE("checkpoints that cannot be looked at fail the check, absent ones do not") {
  const FakeRoot home;
  append(home.path() + "/ckpt", "not a directory");
  const auto failures_with = [&](const std::string& checkpoints) {
    return check_node({}, home.path(), "/usr/bin", {checkpoints}).failures;
  };
  const auto is_about_checkpoints = [](const CheckFailure& failure) {
    return failure.check == "job.checkpoints" &&
           failure.message.find("/ckpt: cannot be listed: Not a directory") != std::string::npos;
  };
  const auto failures = failures_with(home.path() + "/ckpt");
  CHECK(std::any_of(failures.begin(), failures.end(), is_about_checkpoints));
  CHECK(failures_with(home.path() + "/absent").size() + 1 == failures.size());
}

TEST_CASE("a process's control group is found wherever version 2 is mounted") {
  const std::string v1 = "40 35 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
  const std::string v2 = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
  const std::string hybrid = "41 35 0:37 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  const std::string of_user = "0::/user.slice/user-1000.slice/session-3.scope\n";
  CHECK(own_group(v2, of_user) == "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope");
  CHECK(own_group(v1 + hybrid, "8:pids:/\n0::/\n") == "/sys/fs/cgroup/unified");
  CHECK_FALSE(own_group(v1, of_user));
  CHECK_FALSE(own_group(v2, "8:pids:/\n"));
  CHECK_FALSE(own_group(v2, "0::/../other\n"));
  CHECK_FALSE(own_group("30 25 0:26 /part /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", of_user));
}

TEST_CASE("a notice names its time as seconds or as a time of day, in whatever it is wrapped") {
  const Time now = from_ms(1'772'359'200'000);  // 2026-03-01T10:00:00Z
  const Milliseconds fresh{0};
  CHECK_FALSE(time_left("", fresh, now));
  CHECK_FALSE(time_left("TRUE", fresh, now));
  CHECK(time_left("90\n", fresh, now) == Milliseconds{90'000});
  CHECK(time_left("90", Milliseconds{30'000}, now) == Milliseconds{60'000});
  CHECK(time_left("10", Milliseconds{30'000}, now) == Milliseconds{0});
  CHECK(time_left("2026-03-01T10:02:00Z", fresh, now) == Milliseconds{120'000});
  CHECK(time_left("2026-03-01T12:02:00+02:00", fresh, now) == Milliseconds{120'000});
  CHECK(time_left(R"({"action": "terminate", "time": "2026-03-01T10:00:30.5Z"})", fresh, now) ==
        Milliseconds{30'000});
  CHECK(time_left("2026-03-01T10:02:03", fresh, now) == Milliseconds{123'000});  // UTC
  CHECK(time_left("at 2026-03-02 11:00:00.25Z!", fresh, now) == Milliseconds{90'000'000});
  CHECK(time_left("2026-03-01T05:02:00-05:00", fresh, now) == Milliseconds{120'000});
  CHECK(time_left("2026-03-01T15:32:00+0530", fresh, now) == Milliseconds{120'000});
  CHECK(time_left("2026-03-01T09:59:00Z", fresh, now) == Milliseconds{0});
  CHECK(time_left("2027-03-01T09:59:00Z", fresh, now) == Milliseconds{7LL * 24 * 3600 * 1000});
  CHECK(time_left("2026-03-01T10:59:60Z", fresh, now) == Milliseconds{3'600'000});
  for (const char* none :
       {"2026-02-30T10:02:00Z", "2026-03-01T24:00:00Z", "2026-03-01T10:60:00Z",
        "2026-03-01T10:00:61Z", "2026-03-01X10:00:00Z", "2026-03-01T10.00:00Z", "2026-03-01T10:02",
        "2026-03-01T1 :02:00Z", "2026/03/01T10:02:00Z", "2026-03-01T-1:02:00Z"}) {
    INFO(none);
    CHECK(time_left(none, fresh, now) == std::nullopt);
  }
  CHECK(time_left("99999999999999999999", fresh, now) == std::nullopt);
}
