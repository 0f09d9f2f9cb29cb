// Thousands of small disasters, each from one seed. MUSTER_SIM_SEEDS sets how many, MUSTER_SIM_SEED
// runs one alone.
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "scheduler/model/record.h"
#include "tests/catch.h"
#include "tests/scheduler/sim/world.h"
#include "tests/sim/model/dump.h"

using namespace muster;
using namespace muster::test;

namespace {

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

void check_seed(std::uint64_t seed) {
  World world(seed);
  world.run();
  const std::vector<std::string> problems = world.problems();
  if (problems.empty()) return;
  if (std::getenv("MUSTER_SIM_SEED")) {
    for (const Record& record : world.journal()) {
      std::cerr << to_ms(record.at) << " " << describe(record);
    }
  }
  FAIL("seed " << seed << ": " << problems.size()
               << " broken promises, first: " << problems.front());
}

}  // namespace

TEST_CASE("the simulated worlds have elastic jobs that grow, shrink and fail to") {
  std::map<std::string, int> kinds;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    World world(seed);
    world.run();
    for (const Record& record : world.journal()) kinds[kind_of(record)] += 1;
  }
  const int joined = kinds["node_ready"], came = kinds["node_taken"];
  CHECK(came > joined);
  CHECK(joined > 20);
  CHECK(kinds["members_changed"] > joined);
  CHECK(kinds["node_leaves"] > 40);
  CHECK(kinds["node_released"] > 40);
  CHECK(kinds["members_told"] > 100);
}

TEST_CASE("whatever breaks, the promises hold and every job ends when the faults stop") {
  if (std::getenv("MUSTER_SIM_SEED")) return check_seed(number_from("MUSTER_SIM_SEED", 0));
  const std::uint64_t seeds = number_from("MUSTER_SIM_SEEDS", 1000);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) check_seed(seed);
}
