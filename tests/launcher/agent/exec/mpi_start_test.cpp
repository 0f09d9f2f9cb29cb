// `muster agent mpi-start` in a process of its own, as mpirun runs it, with an agent or without.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "launcher/agent/node/run_directory.h"
#include "tests/catch.h"
#include "tests/launcher/agent/fake_host.h"

using namespace muster;

namespace {

using MpiWords = std::vector<std::string>;

// Whoever reaps it, its end comes through a pipe.
class MpiStart {
 public:
  MpiStart(const char* socket, const char* token, const MpiWords& words) {
    int said[2], code[2];
    REQUIRE(::pipe2(said, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(code, O_CLOEXEC) == 0);
    errors_ = Fd(said[0]);
    code_ = Fd(code[0]);
    const Fd says(said[1]), ends(code[1]);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    ::dup2(says.get(), STDERR_FILENO);
    set("MUSTER_AGENT_SOCKET", socket);
    set("MUSTER_TOKEN", token);
    const int end = agent_mpi_start(words);
    ::_exit(::write(ends.get(), &end, sizeof end) < 0 ? 1 : 0);
  }
  ~MpiStart() {
    if (!is_over_) ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  MpiStart(const MpiStart&) = delete;

  bool is_over() {
    pollfd waits{code_.get(), POLLIN, 0};
    return is_over_ || ::poll(&waits, 1, 0) > 0;
  }
  int code() {
    int code = -1;
    is_over_ = true;
    return ::read(code_.get(), &code, sizeof code) == sizeof code ? code : -1;
  }
  std::string errors() const {
    std::string text(4096, '\0');
    const ssize_t got = ::read(errors_.get(), text.data(), text.size());
    return text.substr(0, got > 0 ? static_cast<std::size_t>(got) : 0);
  }

 private:
  static void set(const char* name, const char* value) {
    if (value == nullptr) ::unsetenv(name);
    else ::setenv(name, value, 1);
  }
  pid_t pid_ = 0;
  Fd errors_;
  Fd code_;
  bool is_over_ = false;
};

// mpirun's node, where job "job" runs.
struct MpirunHost {
  MpirunHost() : socket(host.run->socket_path()), token(host.run->controller + ".n1.job.0") {
    host.hello();
    StartRanks start = a_start("true", 1);
    start.mpi = MpiLaunch{{"h1", "h2"}, 1};
    host.ask<StartDone>(start);
  }
  int end_of(MpiStart& start) {
    CHECK(host.turn_until(*host.client, [&] { return start.is_over(); }));
    return start.is_over() ? start.code() : -1;
  }
  FakeHost host;
  std::string socket;
  std::string token;
};

const MpiWords daemon_words{"-l", "me", "-x", "-p", "22", "h2", "orted", "-mca", "ess", "\"env\""};

}  // namespace

TEST_CASE("mpi-start asks for what mpirun wants on the other node, and ends as that ended") {
  MpirunHost node;
  struct End {
    ExitStatus status;
    std::string error;
    int code;
    std::string errors;
  };
  const std::vector<End> ends{{{0, 0}, "", 0, ""},
                              {{3, 0}, "no route", 3, "muster agent mpi-start: no route\n"},
                              {{0, SIGKILL}, "", 128 + SIGKILL, ""}};
  for (const End& end : ends) {
    MpiStart start(node.socket.c_str(), node.token.c_str(), daemon_words);
    const auto asked = node.host.expect<RemoteStartAsked>();
    CHECK(asked.job == JobId{"job"});
    CHECK(asked.attempt == AttemptId{0});
    CHECK(asked.host == "h2");
    CHECK(asked.command == "orted -mca ess \"env\"");
    node.host.client->send(RemoteStartEnded{asked.ticket, end.status, end.error});
    CHECK(node.end_of(start) == end.code);
    CHECK(start.errors() == end.errors);
  }
}

TEST_CASE("mpi-start says why its agent does not help, as a remote shell that cannot connect") {
  MpirunHost node;
  SECTION("it refuses") {
    MpiStart start(node.socket.c_str(), node.token.c_str(), {"h2", "id"});
    CHECK(node.end_of(start) == 255);
    CHECK_THAT(start.errors(), ContainsSubstring("mpi-start: only mpirun's daemon"));
  }
  SECTION("it goes") {
    MpiStart start(node.socket.c_str(), node.token.c_str(), daemon_words);
    REQUIRE(node.host.await<RemoteStartAsked>());
    node.host.agent.reset();
    node.host.io.reset();
    CHECK(start.code() == 255);
    CHECK_THAT(start.errors(), ContainsSubstring("the agent of this node is gone"));
  }
  SECTION("there is none") {
    const std::string nowhere = node.host.home + "/agent.sock";
    MpiStart start(nowhere.c_str(), node.token.c_str(), daemon_words);
    CHECK(start.code() == 255);
    CHECK_THAT(start.errors(), ContainsSubstring("mpi-start: ") && ContainsSubstring(nowhere));
  }
}

TEST_CASE("mpi-start outside of a job, or without words, asks nobody") {
  struct Use {
    const char* socket;
    const char* token;
    MpiWords words;
    const char* complaint;
  };
  const std::vector<Use> uses{{nullptr, "c.n.job.0", daemon_words, "only a job of muster"},
                              {"/sock", nullptr, daemon_words, "only a job of muster"},
                              {"/sock", "c.n.job.0", {}, "HOST and a command are needed"},
                              {"/sock", "c.n.job.0", {"-l", "me"}, "HOST and a command are needed"},
                              {"/sock", "c.n.job.0", {"h2"}, "HOST and a command are needed"},
                              {"/sock", "nodots", daemon_words, "MUSTER_TOKEN is not one"},
                              {"/sock", "job.0", daemon_words, "MUSTER_TOKEN is not one"},
                              {"sock", "c.n.job.0", daemon_words, "is not an absolute path"}};
  for (const Use& use : uses) {
    MpiStart start(use.socket, use.token, use.words);
    INFO(use.complaint);
    CHECK(start.code() == 255);
    CHECK_THAT(start.errors(),
               ContainsSubstring("muster agent mpi-start: ") && ContainsSubstring(use.complaint));
  }
}
