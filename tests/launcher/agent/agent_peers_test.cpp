// Whom an agent obeys: its own controller, its own user, the newest connection.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "launcher/agent/keeper/spool.h"
#include "launcher/wire/message_codec.h"
#include "tests/catch.h"
#include "tests/launcher/agent/fake_host.h"
#include "tests/skip.h"

using namespace muster;

namespace {

Hello a_greeting(const std::string& controller) {
  return Hello{wire_version, controller, NodeId{"n1"}, Milliseconds{60'000}, {}};
}

// The agent hangs up.
bool is_closed(FakeHost& host, AgentClient& peer) {
  return eventually(
      [&] {
        if (!host.is_gone()) host.io->poll();
        return !peer.take(std::chrono::milliseconds{0});
      },
      std::chrono::seconds{5});
}

// What mpi-start is told at once; the controller is not asked.
std::string answer_to(FakeHost& host, const RemoteStartAsked& asked) {
  auto stream = connect_to_agent(host.run->socket_path());
  REQUIRE(stream);
  REQUIRE(write_all(stream->get(), encode(FromAgent{asked})));
  CHECK(host.is_silent_about<RemoteStartAsked>());
  std::string text(65536, '\0');
  const ssize_t got = ::recv(stream->get(), text.data(), text.size(), MSG_DONTWAIT);
  return text.substr(0, got > 0 ? static_cast<std::size_t>(got) : 0);
}

StartRanks an_mpi_start(int node_index) {
  StartRanks start = a_start("true", 1);
  start.node_index = node_index;
  start.mpi = MpiLaunch{{"h1", "h2"}, 1};
  return start;
}

// A job whose node 0 may start commands on h1, which it is, and h2.
StartRanks an_open_start(int node_index) {
  StartRanks start = a_start("true", 1);
  start.node_index = node_index;
  start.door = RemoteDoor{{"h1", "h2"}, {"10.0.0.1", "10.0.0.2"}, {1, 1}};
  return start;
}

}  // namespace

TEST_CASE("another controller is refused, whatever it asks, and the agent's own goes on") {
  GreetedHost host;
  const pid_t rank = host.start();
  AgentClient other(host.run->socket_path());
  other.send(a_greeting("another"));
  other.send(StopAttempt{JobId{"job"}, AttemptId{}, "SIGKILL", Milliseconds{0}});
  CHECK(is_closed(host, other));
  CHECK_FALSE(other.await<Welcome>(std::chrono::milliseconds{0}));
  CHECK(host.processes.sent_to(rank).empty());
  const auto pong = host.ask<Pong>(Ping{7, std::nullopt});
  REQUIRE(pong.clock);
  CHECK(pong.clock->sent_us == 7);
}

TEST_CASE("a peer that does not say who it is is hung up on, and nothing it asks is done") {
  GreetedHost host;
  const pid_t rank = host.start();
  AgentClient other(host.run->socket_path());
  SECTION("a request") { other.send(ForgetAttempt{JobId{"job"}, AttemptId{}}); }
  SECTION("a ping") { other.send(Ping{7, std::nullopt}); }
  CHECK(is_closed(host, other));
  CHECK(host.processes.sent_to(rank).empty());
}

TEST_CASE("the connection of another user is hung up on") {
  if (::geteuid() != 0) {
    skip_test("only root can be another user for a moment");
    return;
  }
  FakeHost host;
  REQUIRE(::chmod(host.run->path.c_str(), 0755) == 0);
  REQUIRE(::chmod(host.run->socket_path().c_str(), 0666) == 0);
  const Fd directory(::open(host.run->path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  Fd stream(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/agent.sock",
                directory.get());
  REQUIRE(::seteuid(65534) == 0);
  const int connected =
      ::connect(stream.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  REQUIRE(::seteuid(0) == 0);
  REQUIRE(connected == 0);
  AgentClient other(std::move(stream));
  other.send(a_greeting(host.run->controller));
  CHECK(is_closed(host, other));
  CHECK_FALSE(other.await<Welcome>(std::chrono::milliseconds{0}));
  host.hello();  // its own user is let in
}

TEST_CASE("the newest connection of the controller counts, and what is known is told to it again") {
  FakeHost host;
  CHECK_FALSE(host.hello().holds_attempts);
  const pid_t rank = host.start();
  host.exits(rank, 7);
  REQUIRE(host.turn_until(*host.client, [&] { return host.client->ended().contains(0); }));
  AgentClient next(host.run->socket_path());
  next.send(a_greeting(host.run->controller));
  const auto welcome = host.expect<Welcome>(next);
  CHECK(welcome.holds_attempts);
  REQUIRE(welcome.held.size() == 1);
  CHECK(welcome.held[0].job == JobId{"job"});
  CHECK(is_closed(host, *host.client));
  REQUIRE(host.turn_until(next, [&] { return next.ended().contains(0); }));
  CHECK(next.ended()[0].status.code == 7);
}

TEST_CASE("a job's name that could lead out of its directory is not taken") {
  GreetedHost host;
  for (const char* name : {"../up", "a.b", "", "..", "a/b"}) {
    host.client->send(a_start("true", 1, name));
  }
  CHECK(host.is_silent_about<StartDone>());
  CHECK(host.processes.started.empty());
}

TEST_CASE("only mpirun's daemon is asked for, and only where mpirun runs") {
  const RemoteStartAsked asked{"1", JobId{"job"}, AttemptId{}, "h2", "orted -mca ess \"env\""};
  GreetedHost host;
  SECTION("no attempt") {
    CHECK_THAT(answer_to(host, asked), ContainsSubstring("runs no such mpirun"));
  }
  SECTION("an attempt without mpirun") {
    host.start();
    CHECK_THAT(answer_to(host, asked), ContainsSubstring("runs no such mpirun"));
  }
  SECTION("a node where mpirun does not run") {
    host.ask<StartDone>(an_mpi_start(1));
    CHECK_THAT(answer_to(host, asked), ContainsSubstring("runs no such mpirun"));
  }
  SECTION("mpirun's node") {
    host.ask<StartDone>(an_mpi_start(0));
    RemoteStartAsked other = asked;
    other.command = "orted; id";
    CHECK_THAT(answer_to(host, other), ContainsSubstring("only mpirun's daemon"));
    auto stream = connect_to_agent(host.run->socket_path());
    REQUIRE(stream);
    REQUIRE(write_all(stream->get(), encode(FromAgent{asked})));
    const auto passed = host.expect<RemoteStartAsked>();
    CHECK(passed.host == "h2");
    CHECK(passed.command == asked.command);
  }
}

TEST_CASE("an agent starts mpirun's daemon word by word, and nothing else for another node") {
  GreetedHost host;
  const auto ask = [&](const std::string& command) {
    host.client->send(RemoteStart{"t", JobId{"job"}, AttemptId{}, command});
    host.turn();
  };
  SECTION("on a node that mpirun starts ranks on") {
    host.ask<StartDone>(an_mpi_start(1));
    ask("PATH=/opt/bin:$PATH ; export PATH ; /opt/bin/orted -mca ess \"env\"");
    REQUIRE(host.processes.started.size() == 1);
    const SpawnRequest& started = host.processes.started.front();
    CHECK(started.argv == std::vector<std::string>{"/opt/bin/orted", "-mca", "ess", "env"});
    CHECK(started.environment.at("PATH").starts_with("/opt/bin:/tmp/muster-mpi."));
    CHECK(started.environment.contains("MUSTER_TOKEN"));
    for (const char* command : {"id", "orted; id", "sh -c id", "orted -mca orte_fork_agent x"}) {
      ask(command);
      const auto refused = host.expect<RemoteStartEnded>();
      CHECK(refused.status.code == 255);
      CHECK_THAT(refused.error, ContainsSubstring("only mpirun's daemon"));
    }
  }
  SECTION("on mpirun's own node") {
    host.ask<StartDone>(an_mpi_start(0));
    const std::size_t before = host.processes.started.size();
    ask("orted -mca ess \"env\"");
    CHECK(host.await<RemoteStartEnded>()->error == "mpirun itself runs on this node");
    CHECK(host.processes.started.size() == before);
  }
  SECTION("of a job that does not use mpirun") {
    host.start();
    ask("orted -mca ess \"env\"");
    CHECK(host.await<RemoteStartEnded>()->error == "the attempt does not run here");
  }
  CHECK(host.processes.started.size() <= 1);
}

TEST_CASE("through the door node 0 asks for any command, on nodes of its attempt alone") {
  GreetedHost host;
  const RemoteStartAsked asked{"1", JobId{"job"}, AttemptId{}, "10.0.0.2", "id; pwd"};
  SECTION("from another node") {
    host.ask<StartDone>(an_open_start(1));
    CHECK_THAT(answer_to(host, asked), ContainsSubstring("only node 0 of a job may start"));
  }
  SECTION("a node that the attempt does not have") {
    host.ask<StartDone>(an_open_start(0));
    RemoteStartAsked other = asked;
    other.host = "h9";
    CHECK_THAT(answer_to(host, other), ContainsSubstring("h9 is not a node of this attempt"));
  }
  SECTION("the address of a node, which is known here") {
    host.ask<StartDone>(an_open_start(0));
    RemoteStartAsked other = asked;
    other.command = "hostname -I";
    CHECK_THAT(answer_to(host, other), ContainsSubstring("10.0.0.2\n"));
  }
  SECTION("any command") {
    host.ask<StartDone>(an_open_start(0));
    auto stream = connect_to_agent(host.run->socket_path());
    REQUIRE(stream);
    REQUIRE(write_all(stream->get(), encode(FromAgent{asked})));
    const auto passed = host.expect<RemoteStartAsked>();
    CHECK(passed.host == "h2");
    CHECK(passed.command == asked.command);
    // Its output comes once, whatever is sent again, and is acknowledged when it was taken.
    const std::int64_t number = std::stoll(passed.ticket);
    const auto send = [&](std::int64_t offset, const char* bytes) {
      host.client->send(RemoteOutput{JobId{"job"}, AttemptId{}, number, offset, "h2"}, bytes);
    };
    send(0, "abc");
    auto ack = host.expect<RemoteOutputAck>();
    CHECK(ack.offset == 3);
    CHECK(ack.node == "h2");
    send(9, "lost before");  // it comes again, in order
    send(1, "bcd");
    CHECK(host.expect<RemoteOutputAck>().offset == 4);
    std::string text(65536, '\0');
    const ssize_t got = ::recv(stream->get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    CHECK(text.ends_with("d"));
    CHECK(text.find("abc") != std::string::npos);
    CHECK(text.find("lost") == std::string::npos);
    // Nobody waits for that of an asker that has gone.
    stream->reset();
    host.turn();
    send(4, "more");
    CHECK(host.expect<RemoteOutputAck>().offset == 8);
  }
}

TEST_CASE("a node runs a command of the door once, as the attempt's, until it is stopped") {
  GreetedHost host;
  const auto ask = [&](const std::string& ticket, const std::string& command) {
    host.client->send(RemoteStart{ticket, JobId{"job"}, AttemptId{}, command});
    host.turn();
  };
  host.ask<StartDone>(an_open_start(1));
  const std::size_t ranks = host.processes.started.size();
  ask("job.0.h1.1", "id; pwd");
  ask("job.0.h1.1", "id; pwd");  // over another connection
  REQUIRE(host.processes.started.size() == ranks + 1);
  const SpawnRequest& started = host.processes.started.back();
  CHECK(started.argv.at(1) == "-c");
  CHECK(started.argv.at(2) == "id; pwd");
  CHECK(started.environment.contains("MUSTER_TOKEN"));
  CHECK(started.environment.at("PATH").find("/bin:") != std::string::npos);
  CHECK(started.environment.at("MUSTER_HOSTFILE").ends_with("/hostfile"));
  CHECK(::access(started.environment.at("MUSTER_DISCOVERY").c_str(), X_OK) == 0);
  const auto refusal_of = [&](const std::string& ticket, const std::string& command) {
    ask(ticket, command);
    return host.expect<RemoteStartEnded>().error;
  };
  CHECK_THAT(refusal_of("job.0.h1.-7", "id"), ContainsSubstring("malformed"));
  CHECK_THAT(refusal_of("job.0.h1.2", std::string("id\0x", 4)), ContainsSubstring("malformed"));
  CHECK_THAT(refusal_of("job.0.h1.3", std::string(200'000, 'x')), !ContainsSubstring("malformed"));
  host.client->send(StopAttempt{JobId{"job"}, AttemptId{}, "SIGTERM", Milliseconds{1000}});
  CHECK_THAT(refusal_of("job.0.h1.4", "id"), ContainsSubstring("is being stopped"));
  CHECK(host.processes.started.size() == ranks + 1);
}

TEST_CASE("the end of a command of the door is told when all that it said has arrived") {
  GreetedHost host;
  host.ask<StartDone>(an_open_start(1));
  host.client->acknowledges = false;
  host.client->send(RemoteStart{"job.0.h1.1", JobId{"job"}, AttemptId{}, "true"});
  host.turn();
  host.say("last words", output_of_command(1).value);
  host.turn();
  host.exits(host.processes.processes.rbegin()->first, 0);
  CHECK(host.is_silent_about<RemoteStartEnded>());
  host.ask<RemoteStartEnded>(RemoteOutputAck{JobId{"job"}, AttemptId{}, 1, 10, "h1"});
}

TEST_CASE("no more than 64 commands of the door run at a time") {
  GreetedHost host;
  host.ask<StartDone>(an_open_start(1));
  const auto ask = [&](int number) {
    const std::string ticket = "job.0.h1." + std::to_string(number);
    host.client->send(RemoteStart{ticket, JobId{"job"}, AttemptId{}, "true"});
    host.turn();
  };
  for (int number = 1; number <= 64; ++number) ask(number);
  CHECK(host.is_silent_about<RemoteStartEnded>());
  const pid_t last = host.processes.processes.rbegin()->first;
  ask(65);
  CHECK_THAT(host.expect<RemoteStartEnded>().error, ContainsSubstring("too many commands run"));
  host.exits(last, 0);
  REQUIRE(host.expect<RemoteStartEnded>().error == "");
  ask(66);
  CHECK(host.processes.processes.rbegin()->first != last);
}

TEST_CASE("the door does not close, however many commands have ended") {
  GreetedHost host;
  host.ask<StartDone>(an_open_start(1));
  for (int number = 1; number <= 4100; ++number) {
    const std::string ticket = "job.0.h1." + std::to_string(number);
    host.client->send(RemoteStart{ticket, JobId{"job"}, AttemptId{}, "true"});
    host.turn();
    host.exits(host.processes.processes.rbegin()->first, 0);
    REQUIRE(host.expect<RemoteStartEnded>().error == "");
  }
}
