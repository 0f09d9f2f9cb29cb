// How fast output moves and how soon a rank runs. Numbers for a report; the limits are far below
// what an idle machine reaches, so that a busy one passes too.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Processor time that the agent has used so far.
double agent_seconds(const TestNode& node) {
  const std::string stat = read_file("/proc/" + std::to_string(node.agent_pid()) + "/stat");
  long long user = 0;
  long long system = 0;
  std::sscanf(stat.c_str() + stat.rfind(')'),
              ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld", &user, &system);
  return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

TEST_CASE("a gigabyte of one rank's output passes through") {
  TestNode node;
  AgentClient client = node.begin();
  client.keeps_output = false;
  const auto begin = std::chrono::steady_clock::now();
  client.send(a_start("head -c 1000000000 /dev/zero"));
  REQUIRE(client.wait([&] { return client.output_bytes == 1000000000; }));
  const double took = seconds_since(begin);
  WARN("1 GB in " << took << " s: " << 1000 / took << " MB/s; the agent's own time "
                  << agent_seconds(node) << " s");
  CHECK(took < 50);
  client.ask<AttemptClean>(a_stop());
}

TEST_CASE("a rank runs soon after it is asked for") {
  TestNode node;
  AgentClient client = node.begin();
  const auto begin = std::chrono::steady_clock::now();
  client.send(a_start("echo hello"));
  REQUIRE(client.wait([&] { return !client.output(0).empty(); }));
  const double first_byte = seconds_since(begin);
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  const auto stop = std::chrono::steady_clock::now();
  client.ask<AttemptClean>(a_stop());
  WARN("first byte after " << 1000 * first_byte << " ms, clean after " << 1000 * seconds_since(stop)
                           << " ms");
  CHECK(first_byte < 5);
}
