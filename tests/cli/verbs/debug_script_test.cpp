// debug.sh, which `muster debug` runs beside a rank: on a process of this test, with programs that
// only have the names of debuggers.
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "cli/verbs/verbs.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/os/read_file.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

namespace fs = std::filesystem;

struct ScriptRun {
  int code = 0;
  std::string out;
  std::string err;
};

// A rank whose command is `sleep`, and the spool of its attempt.
class DebuggedRank {
 public:
  explicit DebuggedRank(const std::string& command = "exec sleep 1000") {
    fs::create_directories(root_ / "vitals");
    fs::create_directories(root_ / "bin");
    set_scope("0");
    environment_ = {{"PATH", (root_ / "bin").string() + ":/usr/bin:/bin"},
                    {"MUSTER_HEARTBEAT", (root_ / "vitals/heartbeat-3").string()}};
    const auto started = spawn({{"sh", "-c", command}, environment_, "/", {}, 1, 2});
    REQUIRE(started);
    pid = *started;
    note(pid);
  }
  ~DebuggedRank() {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  void note(pid_t process) const {
    std::ofstream(root_ / "exits") << "started 30 1\nstarted 3 1\nstarted 3 " << process << '\n';
  }
  void add_program(const std::string& name, const std::string& text = "exit 0") const {
    std::ofstream(root_ / "bin" / name) << "#!/bin/sh\n" << text << '\n';
    fs::permissions(root_ / "bin" / name, fs::perms::owner_all);
  }
  void add_note(const std::string& text) const {
    std::ofstream(root_ / "vitals/debug-3") << text << '\n';
  }
  void set_scope(const std::string& scope) const {
    add_program("cat", "case $* in *yama*) echo " + scope + ";; *) exec /bin/cat \"$@\";; esac");
  }
  ScriptRun ask(const std::string& with) const {
    const std::string out = (root_ / "out").string(), err = (root_ / "err").string();
    std::ofstream(root_ / "script") << debug_script();
    const std::string line = "sh " + (root_ / "script").string() + " train '" + with + "' >" + out +
                             " 2>" + err + " </dev/null";
    const auto started = spawn({{"sh", "-c", line}, environment_, "/", {}, 1, 2});
    REQUIRE(started);
    int status = 0;
    ::waitpid(*started, &status, 0);
    return {WEXITSTATUS(status), text_of_file(out), text_of_file(err)};
  }
  pid_t pid = 0;

 private:
  const Folder folder_;
  const fs::path root_ = folder_.path();
  std::map<std::string, std::string> environment_;
};

}  // namespace

TEST_CASE("a rank's process is found for gdb, with what to type and to give to VS Code") {
  const DebuggedRank rank;
  rank.add_program("gdbserver");
  const ScriptRun ran = rank.ask("gdb");
  CHECK(ran.err == "");
  CHECK(ran.code == 0);
  const std::string target =
      "target remote | muster exec train --rank 3 -- gdbserver --once "
      "--attach stdio " +
      std::to_string(rank.pid);
  CHECK_THAT(ran.out, ContainsSubstring("\ngdb -ex \"" + target + "\"\n"));
  CHECK_THAT(ran.out, ContainsSubstring("[{\"text\": \"" + target + "\"}]"));
}

TEST_CASE("the program behind the shell of its command is meant") {
  const DebuggedRank rank("sleep 1000; true");
  rank.add_program("gdbserver");
  ScriptRun ran;
  for (int i = 0; i < 100 && ran.out.find("sleep)") == ran.out.npos; ++i) ran = rank.ask("gdb");
  CHECK_THAT(ran.out, !ContainsSubstring("stdio " + std::to_string(rank.pid) + "\""));
  CHECK_THAT(ran.out, ContainsSubstring("sleep)\n"));
}

TEST_CASE("debugpy is let in by a free port, and what it says when it cannot is passed on") {
  const DebuggedRank rank;
  rank.add_program("gdb");
  rank.add_program("python3", "case $* in *socket*) echo 4711;; *--pid*) echo $* >&2;; esac");
  const ScriptRun ran = rank.ask("debugpy");
  CHECK(ran.code == 0);
  CHECK_THAT(ran.out, ContainsSubstring("\nmuster forward train --rank 3 4711\n"));
  CHECK_THAT(ran.out, ContainsSubstring("\"port\": 4711}"));
  CHECK_THAT(ran.out, ContainsSubstring("debugpy asks for no password"));
  rank.add_program("python3", "case $* in *--pid*) echo No symbol DoAttach; exit 1;; esac");
  const ScriptRun failed = rank.ask("debugpy");
  CHECK(failed.code == 1);
  CHECK_THAT(failed.err, ContainsSubstring("No symbol DoAttach"));
  rank.add_program("timeout", "echo over after $1 s; exit 124");
  CHECK_THAT(rank.ask("debugpy").err, ContainsSubstring("over after 60 s"));
}

TEST_CASE("a rank that waits in muster.debug is told with the port where it does") {
  const DebuggedRank rank;
  rank.add_program("python3", "exit 1");
  rank.add_note(std::to_string(rank.pid) + " 4712");
  const ScriptRun ran = rank.ask("debugpy");
  CHECK(ran.err == "");
  CHECK_THAT(ran.out, ContainsSubstring("\nmuster forward train --rank 3 4712\n"));
  const std::string other = std::to_string(::getpid()) + " 4712";
  for (const char* odd : {other.c_str(), "x;y 1", ""}) {
    rank.add_note(odd);
    CHECK_THAT(rank.ask("debugpy").err, ContainsSubstring("debugpy of "));
  }
}

TEST_CASE("what is missing on the node is named with its package") {
  const DebuggedRank rank;
  rank.add_program("python3", "exit 1");
  const ScriptRun ran = rank.ask("debugpy");
  CHECK(ran.code == 1);
  CHECK_THAT(ran.err, ContainsSubstring("muster: rank 3 of train: debugpy of "));
  CHECK_THAT(ran.err, ContainsSubstring("install the package python3-debugpy"));
}

TEST_CASE("a number that is another process's by now is not the rank") {
  const DebuggedRank rank;
  rank.add_program("gdbserver");
  rank.note(::getpid());
  CHECK_THAT(rank.ask("gdb").err, ContainsSubstring("it has ended"));
  rank.note(0);
  CHECK_THAT(rank.ask("gdb").err, ContainsSubstring("it has no process"));
}

TEST_CASE("a process that somebody debugs is told of with the debugger's number") {
  const DebuggedRank rank;
  rank.add_program("gdbserver");
  REQUIRE(::ptrace(PTRACE_SEIZE, rank.pid, nullptr, nullptr) == 0);
  const ScriptRun ran = rank.ask("gdb");
  CHECK(ran.code == 1);
  CHECK_THAT(ran.err,
             ContainsSubstring("debugged already, by process " + std::to_string(::getpid())));
}

TEST_CASE("a node that forbids to debug running processes is named as such, also to root") {
  const DebuggedRank rank;
  rank.add_program("gdbserver");
  rank.set_scope("1");
  rank.add_program("id", "echo 0");
  CHECK(rank.ask("gdb").code == 0);
  rank.add_program("id", "echo 1000");
  const ScriptRun refused = rank.ask("gdb");
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, ContainsSubstring("kernel.yama.ptrace_scope is 1"));
  rank.set_scope("3");
  rank.add_program("id", "echo 0");
  CHECK_THAT(rank.ask("gdb").err, ContainsSubstring("kernel.yama.ptrace_scope is 3"));
}
