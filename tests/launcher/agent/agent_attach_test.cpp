// `muster agent attach` as a transport uses it, and nodes whose disk is full.
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"
#include "tests/skip.h"

using namespace muster;

namespace {

// attach with a socket as its stdin and stdout.
struct Attached {
  explicit Attached(const TestNode& node) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    stream = Fd(ends[0]);
    const Fd theirs(ends[1]);
    const std::string program = agent_program();
    pid = ::fork();
    if (pid == 0) {
      ::dup2(theirs.get(), 0);
      ::dup2(theirs.get(), 1);
      ::execl(program.c_str(), program.c_str(), "agent", "attach", "--home", node.home().c_str(),
              "--controller", node.controller().c_str(), "--node", node.name().c_str(), nullptr);
      ::_exit(126);
    }
    std::string first;
    for (char byte = 0; byte != '\n' && ::read(stream.get(), &byte, 1) == 1;) first += byte;
    REQUIRE(first == "MUSTER-ATTACHED\n");
  }
  ~Attached() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  int exit_code() {
    int status = 0;
    ::waitpid(std::exchange(pid, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  pid_t pid = 0;
  Fd stream;
};

}  // namespace

TEST_CASE("attach starts an agent where there is none and joins it") {
  TestNode node;
  {
    Attached attached(node);
    AgentClient client(std::move(attached.stream));
    client.hello(node.controller(), node.name());
    client.send(a_start("head -c 20000000 /dev/zero"));
    REQUIRE(client.wait([&] { return client.output_bytes == 20000000; }));
  }
  const pid_t agent = node.agent_pid();
  CHECK(agent > 0);
  Attached again(node);
  AgentClient client(std::move(again.stream));
  CHECK(client.hello(node.controller(), node.name()).holds_attempts);
  CHECK(node.agent_pid() == agent);
  node.kill_agent();
  // What the agent said before is passed on to the end, so somebody has to read it.
  client.wait([] { return false; });
  CHECK(again.exit_code() == 0);
}

TEST_CASE("two that attach at once get one agent") {
  TestNode node;
  Attached one(node);
  Attached two(node);
  AgentClient first(std::move(one.stream));
  AgentClient second(std::move(two.stream));
  const Welcome welcome = first.hello(node.controller(), node.name());
  CHECK(second.hello(node.controller(), node.name()).agent_id == welcome.agent_id);
}

TEST_CASE("a node without space says so and its agent lives on") {
  TestNode node;
  const std::string limited = node.home() + "/jobs";
  std::filesystem::create_directories(limited);
  const char* options = "size=64k,nr_inodes=14,mode=0700";
  if (::mount("tmpfs", limited.c_str(), "tmpfs", 0, options) != 0) {
    skip_test("mounting a small file system needs root");
    return;
  }
  AgentClient client = node.begin();
  client.send(a_start("head -c 1000000 /dev/zero > fill; echo code $?"));
  REQUIRE(client.await<StartDone>());
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  CHECK_THAT(client.output(0), ContainsSubstring("No space left"));
  const auto second = a_start("true", 1, "next");
  const auto refused = client.ask<StartDone>(second);
  CHECK_THAT(refused.error, ContainsSubstring("No space left"));
  client.ask<Pong>(Ping{1});
  client.ask<AttemptClean>(a_stop());
  ::umount2(limited.c_str(), MNT_DETACH);
}
