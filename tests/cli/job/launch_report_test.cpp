// What `--profile` prints and writes.
#include "cli/job/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/catch.h"

using namespace muster;

namespace {

NodeLaunch a_node(int number, std::int64_t shell_us) {
  NodeLaunch node;
  node.node = NodeId{"h" + std::to_string(number)};
  node.methods = "curve25519-sha256 aes128-ctr hmac-sha2-256";
  node.phases = {{"tcp", -500, 500}, {"shell", 0, shell_us}, {"gate", shell_us, 2'000}};
  return node;
}

// Of ten nodes the last is held up by its shell.
LaunchProfile a_profile() {
  LaunchProfile profile;
  for (int i = 1; i < 10; ++i) profile.nodes.push_back(a_node(i, 20'000 + i));
  profile.nodes.push_back(a_node(10, 2'400'000));
  return profile;
}

}  // namespace

TEST_CASE("the profile of a launch names the slowest node and shows no more than five") {
  const std::string text = launch_text(a_profile(), 0, false);
  CHECK_THAT(text, ContainsSubstring("launch of attempt 0; slowest: h10 took 2.4 s, of which 2.4 s "
                                     "shell: a start file such as ~/.bashrc"));
  CHECK_THAT(text, ContainsSubstring("tcp 0.5 ms, shell 2400 ms, gate 2.0 ms"));
  CHECK_THAT(text, ContainsSubstring("h9 "));
  CHECK_THAT(text, !ContainsSubstring("h5 "));
}

TEST_CASE("a node that kept its connection says so") {
  LaunchProfile profile = a_profile();
  profile.nodes = {a_node(1, 0)};
  profile.nodes[0].phases = {{"gate", 0, 2'000}};
  profile.nodes[0].kept_connection = true;
  CHECK_THAT(launch_text(profile, 0, false), ContainsSubstring("kept its connection, gate 2.0 ms"));
  CHECK(launch_document(profile)["hosts"][0]["kept_connection"] == true);
}

TEST_CASE("the trace of a launch has a row per node and begins at 0") {
  const Document trace = chrome_trace("train", a_profile());
  int rows = 0;
  int phases = 0;
  std::int64_t first = 1;
  for (const Document& event : trace["traceEvents"]) {
    rows += event["name"] == "thread_name";
    if (event["ph"] != "X") continue;
    ++phases;
    first = std::min(first, event["ts"].get<std::int64_t>());
  }
  CHECK(rows == 10);
  CHECK(phases == 30);
  CHECK(first == 0);
}
