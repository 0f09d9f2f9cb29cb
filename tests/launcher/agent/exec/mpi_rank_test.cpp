// `muster agent mpi-rank` in a process of its own, as mpirun starts it: what the rank behind it is
// given, and how both end.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "health/checks/host/facts.h"
#include "launcher/agent/attempt/exit_log.h"
#include "launcher/agent/attempt/mpi_launch.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace {

struct Wrapped {
  explicit Wrapped(const std::string& script) {
    for (const char* name : {"/code/here", "/output"}) folder.write(name, "");
    rank.directory = folder.path() + "/code";
    rank.output_path = folder.path() + "/output";
    rank.exit_log_path = exit_log_path(folder.path());
    rank.argv = {"/bin/sh", "-c", script};
    rank.environment = {{"PATH", "/usr/bin:/bin"}, {"MINE", "m3"}, {"OMPI_SET", "by the job"}};
  }
  ~Wrapped() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  Wrapped(const Wrapped&) = delete;

  // With this environment of mpirun's.
  void start(std::vector<std::string> entries) {
    REQUIRE(write_mpi_rank_file(mpi_rank_file_path(folder.path(), RankId{3}), rank));
    pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid > 0) return;
    std::vector<char*> envp;
    for (std::string& entry : entries) envp.push_back(entry.data());
    envp.push_back(nullptr);
    ::environ = envp.data();
    ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    ::_exit(agent_mpi_rank());
  }
  void start() {
    start({"OMPI_COMM_WORLD_RANK=3", "MUSTER_ATTEMPT_DIR=" + folder.path(), "OTHER=no",
           "OMPI_SET=by mpirun", "PMIX_MORE=a=b", "OMPI_ODD"});
  }
  ExitStatus end() {
    int status = 0;
    REQUIRE(::waitpid(std::exchange(pid, 0), &status, 0) > 0);
    return exit_status_of(status);
  }
  std::string output() const {
    std::ifstream file(rank.output_path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  bool says(const std::string& text) const {
    for (int i = 0; i < 2000 && output() != text; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    return output() == text;
  }
  std::vector<ExitLogLine> log() const { return ExitLogReader(rank.exit_log_path).read_new(); }

  FakeRoot folder;
  MpiRankFile rank;
  pid_t pid = 0;
};

}  // namespace

TEST_CASE("a rank behind mpirun has what is set for it, and what mpirun says of MPI") {
  Wrapped wrapped("ls; echo $MINE $OTHER. >&2; env | grep -E '^(OMPI|PMIX)_' | sort");
  wrapped.start();
  CHECK(wrapped.end().ok());
  CHECK(wrapped.output() ==
        "here\nm3 .\nOMPI_COMM_WORLD_RANK=3\nOMPI_SET=by mpirun\nPMIX_MORE=a=b\n");
}

TEST_CASE("a rank behind mpirun leaves a record of its begin and end, and mpirun sees the same") {
  Wrapped wrapped("echo $$; exit 7");
  const RawTime before = raw_time();
  wrapped.start();
  CHECK(wrapped.end().code == 7);
  const auto lines = wrapped.log();
  REQUIRE(lines.size() == 2);
  const auto& start = std::get<RankStart>(lines[0]);
  CHECK(start.rank == RankId{3});
  CHECK(wrapped.output() == std::to_string(start.pid) + "\n");
  const auto& exit = std::get<RankExit>(lines[1]);
  CHECK(exit.rank == RankId{3});
  CHECK(exit.status.code == 7);
  CHECK(exit.status.signal == 0);
  CHECK(exit.earliest >= before);
  CHECK(exit.earliest <= exit.latest);
  CHECK(exit.latest <= raw_time());
  CHECK_FALSE(exit.asked_to_stop);
  CHECK_FALSE(exit.with_mpirun);
  CHECK(exit.boot == read_boot_id());
}

TEST_CASE("a signal that mpirun sends to all is the rank's to decide on, and ends both alike") {
  Wrapped wrapped("echo up; while [ ! -e ../go ]; do sleep 0.02; done; kill -SEGV $$");
  wrapped.start();
  REQUIRE(wrapped.says("up\n"));
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    ::kill(wrapped.pid, signal);
  }
  wrapped.folder.write("/go", "");
  const ExitStatus end = wrapped.end();
  CHECK(end.signal == SIGSEGV);
  CHECK_FALSE(end.core_dumped);
  const auto lines = wrapped.log();
  REQUIRE(lines.size() == 2);
  CHECK(std::get<RankExit>(lines[1]).status.signal == SIGSEGV);
}

TEST_CASE("a rank behind mpirun is ended by a signal as any process is") {
  Wrapped wrapped("echo up; sleep 60");
  wrapped.start();
  REQUIRE(wrapped.says("up\n"));
  const auto lines = wrapped.log();
  REQUIRE(lines.size() == 1);
  ::kill(std::get<RankStart>(lines[0]).pid, SIGTERM);
  CHECK(wrapped.end().signal == SIGTERM);
}

TEST_CASE("what is no rank of this node is not started") {
  Wrapped wrapped("echo ran");
  SECTION("nobody says which rank") {
    wrapped.start({"MUSTER_ATTEMPT_DIR=" + wrapped.folder.path()});
  }
  SECTION("nobody says of which attempt") { wrapped.start({"OMPI_COMM_WORLD_RANK=3"}); }
  SECTION("another node's") {
    wrapped.start({"OMPI_COMM_WORLD_RANK=4", "MUSTER_ATTEMPT_DIR=" + wrapped.folder.path()});
  }
  SECTION("its output cannot be written") {
    wrapped.rank.output_path = wrapped.folder.path() + "/absent/output";
    wrapped.start();
  }
  SECTION("its directory is gone") {
    wrapped.rank.directory = wrapped.folder.path() + "/absent";
    wrapped.start();
  }
  CHECK(wrapped.end().code == 127);
  CHECK(wrapped.output().empty());
  CHECK(wrapped.log().empty());
}
