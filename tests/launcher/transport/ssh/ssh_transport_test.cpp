#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <ctime>
#include <iostream>

#include "launcher/transport/ssh/transport.h"
#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

// A cluster, and one libssh2 transport to it.
struct Bench {
  explicit Bench(int hosts, bool private_home = false) : cluster(hosts, private_home) {}
  boost::asio::io_context io;
  TestCluster cluster;
  TemporaryFolder folder;
  ToNodes<SshTransport> transport{io, cluster.settings(), std::make_shared<PushGate>(io), nullptr};

  std::vector<ConnectResult> connect_all(const AgentLaunch& launch) {
    return muster::connect_all(io, transport, cluster.nodes(), launch);
  }
  // To the first host.
  Connected connect(const AgentLaunch& launch) {
    auto result = connect_one(io, transport, cluster.nodes()[0], launch);
    INFO(message_of(result));
    REQUIRE(std::holds_alternative<Connected>(result));
    return std::move(std::get<Connected>(result));
  }
  Connected connect() { return connect(fake_agent(folder, "a1")); }
};

}  // namespace

TEST_CASE("an agent is pushed once, attached and echoes") {
  if (!TestCluster::permitted()) return;
  Bench bench(1);
  const Connected first = bench.connect();
  CHECK_THAT(text_of(first.profile), ContainsSubstring("push"));
  CHECK(echo(bench.io, *first.link, "hello") == "hello");
  CHECK(first.link->queued_bytes() == 0);
  const std::string profile = text_of(bench.connect().profile);
  std::cout << "warm connect: " << profile << "\n";
  CHECK(profile.find("push") == std::string::npos);
}

TEST_CASE("a link carries a hundred megabytes each way unharmed") {
  if (!TestCluster::permitted()) return;
  Bench bench(1);
  const Connected connected = bench.connect();
  std::string bytes(100'000'000, 'x');
  for (std::size_t i = 0; i < bytes.size(); i += 4099) bytes[i] = static_cast<char>(i);
  const auto start = std::chrono::steady_clock::now();
  CHECK(echo(bench.io, *connected.link, bytes) == bytes);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << "100 MB there and back: " << took.count() << " s\n";
}

TEST_CASE("a link survives the renewal of its keys") {
  if (!TestCluster::permitted()) return;
  Bench bench(1);
  const TestCluster& cluster = bench.cluster;
  cluster.verb("crash", 0);
  const std::string config = cluster.file(cluster.nodes()[0].id.value + "/sshd_config");
  write_text(config, read_text(config) + "RekeyLimit 1M\n");
  cluster.verb("boot", 0);
  const Connected connected = bench.connect();
  const std::string bytes(10'000'000, 'r');
  CHECK(echo(bench.io, *connected.link, bytes) == bytes);
}

TEST_CASE("a link that loses its network, its host or its agent says so") {
  if (!TestCluster::permitted()) return;
  Bench bench(3);
  AgentLaunch launch =
      fake_agent(bench.folder, "a1", "echo MUSTER-ATTACHED; read x; echo bye >&2; exit 7");
  launch.connect.silence = Milliseconds(4000);
  auto results = bench.connect_all(launch);
  std::vector<std::string> closed(3);
  for (int i = 0; i < 3; ++i) {
    INFO(message_of(results[i]));
    REQUIRE(std::holds_alternative<Connected>(results[i]));
    std::get<Connected>(results[i])
        .link->start({[](std::span<const std::byte>) {},
                      [&closed, i](const LinkFailure& failure) {
                        CHECK(failure.kind == LinkFailureKind::lost);
                        closed[i] = failure.message;
                      }});
  }
  const auto start = std::chrono::steady_clock::now();
  bench.cluster.verb("partition", 0);
  bench.cluster.verb("crash", 1);
  std::get<Connected>(results[2]).link->write("go\n");
  CHECK(drive(bench.io, [&] { return !closed[2].empty(); }));
  CHECK_THAT(closed[2], ContainsSubstring("exit code 7, it said: bye"));
  CHECK(drive(
      bench.io, [&] { return !closed[0].empty() && !closed[1].empty(); },
      std::chrono::seconds(12)));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << "loss noticed after " << took.count() << " s (silence 4 s): " << closed[0] << "; "
            << closed[1] << "\n";
}

TEST_CASE("a dead network is noticed while bytes wait to be sent") {
  if (!TestCluster::permitted()) return;
  Bench bench(1);
  AgentLaunch launch = fake_agent(bench.folder, "a1");
  launch.connect.silence = Milliseconds(3000);
  const Connected connected = bench.connect(launch);
  bench.cluster.verb("partition", 0);
  CHECK_THAT(echo(bench.io, *connected.link, std::string(5'000'000, 'z')),
             ContainsSubstring("the connection broke"));
}

TEST_CASE("sixteen private homes get a copy each") {
  if (!TestCluster::permitted()) return;
  Bench bench(16, true);
  int pushed = 0;
  for (const auto& result : bench.connect_all(fake_agent(bench.folder, "p1"))) {
    REQUIRE(std::holds_alternative<Connected>(result));
    pushed += text_of(std::get<Connected>(result).profile).find("push") != std::string::npos;
  }
  CHECK(pushed == 16);
}

TEST_CASE("the time of a slow start file is in the profile") {
  if (!TestCluster::permitted()) return;
  Bench bench(1);
  bench.cluster.on(0, "echo 'echo hello from bashrc; sleep 2.1' > /home/sandbox/.bashrc");
  const ConnectProfile profile = bench.connect().profile;
  const auto shell = std::ranges::find(profile, "shell", &PhaseTime::phase);
  REQUIRE(shell != profile.end());
  CHECK(shell->us > 2'000'000);
}

TEST_CASE("a transport that goes away drops its attempts and keeps its links") {
  if (!TestCluster::permitted()) return;
  TestCluster cluster(2);
  TemporaryFolder folder;
  boost::asio::io_context io;
  auto transport = std::make_unique<ToNodes<SshTransport>>(io, cluster.settings(),
                                                           std::make_shared<PushGate>(io), nullptr);
  const AgentLaunch launch = fake_agent(folder, "a1");
  auto result = connect_one(io, *transport, cluster.nodes()[0], launch);
  REQUIRE(std::holds_alternative<Connected>(result));
  bool called = false;
  transport->connect(cluster.nodes()[1], launch, [&](ConnectResult) { called = true; });
  io.restart();
  io.run_one();
  transport.reset();
  CHECK(echo(io, *std::get<Connected>(result).link, "still here") == "still here");
  CHECK_FALSE(called);
}

TEST_CASE("sixty-four hosts connect at once") {
  if (!TestCluster::permitted()) return;
  Bench bench(64);
  const AgentLaunch launch = fake_agent(bench.folder, "a64", "echo MUSTER-ATTACHED; read line");
  for (const char* which : {"cold, with push to a shared home", "second time"}) {
    const std::clock_t cpu = std::clock();
    const auto start = std::chrono::steady_clock::now();
    const auto results = bench.connect_all(launch);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const std::chrono::duration<double> computed(double(std::clock() - cpu) / CLOCKS_PER_SEC);
    std::cout << "64 hosts, " << which << ": " << took.count()
              << " s, of which this process computed " << computed.count() << " s; the last: ";
    for (const ConnectResult& result : results) CHECK(message_of(result) == "connected");
    const auto* last = std::get_if<Connected>(&results.back());
    std::cout << (last ? text_of(last->profile) : "") << "\n";
  }
}

}  // namespace muster
