// muster_sim --seed N [--count C] [--nodes M] [--minutes T] [--ranks-per-node R] [--jobs J]
//            [--faults-per-minute F] [--sqlite] [--remedies] [--plant NAME] [--verbose]
// Runs seeds N … N+C-1, prints the first that breaks a promise with its last events and ends with
// 1. With `--plant` one deliberate mistake is in every run.
#include <cstdlib>
#include <iostream>

#include "launcher/controller/main.h"
#include "tests/sim/world.h"

using namespace muster::sim;

namespace {

[[noreturn]] void complain(const std::string& what) {
  std::cerr << "muster_sim: " << what << "\n";
  std::exit(2);
}

struct Options {
  WorldSettings world;
  int count = 1;
};

bool plant(Planted& planted, const std::string& name) {
  for (const Mistake& one : mistakes) {
    if (name == one.name) return planted.*one.planted = true;
  }
  return false;
}

bool set_number(Options& options, const std::string& name, long long value) {
  WorldSettings& world = options.world;
  if (name == "--seed") world.seed = static_cast<std::uint64_t>(value);
  else if (name == "--count") options.count = static_cast<int>(value);
  else if (name == "--nodes") world.nodes = static_cast<int>(value);
  else if (name == "--minutes") world.minutes = static_cast<int>(value);
  else if (name == "--ranks-per-node") world.ranks_per_node = static_cast<int>(value);
  else if (name == "--jobs") world.jobs = static_cast<int>(value);
  else if (name == "--faults-per-minute") world.faults_per_minute = static_cast<int>(value);
  else return false;
  return true;
}

Options read(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string name = words[i];
    if (name == "--verbose") {
      options.world.verbose = true;
    } else if (name == "--sqlite") {
      options.world.sqlite = true;
    } else if (name == "--remedies") {
      options.world.remedies = true;
    } else if (i + 1 == count) {
      complain("unknown option, or one without its value: " + name);
    } else if (name == "--plant") {
      if (!plant(options.world.planted, words[++i])) complain("no such mistake: " + name);
    } else if (!set_number(options, name, std::atoll(words[++i]))) {
      complain("unknown option " + name);
    }
  }
  if (options.world.nodes < 1) complain("--nodes: expected 1 or more");
  return options;
}

void tell(std::uint64_t seed, const Outcome& outcome) {
  std::cout << "seed " << seed << ": " << outcome.problems.front() << "\n";
  for (const std::string& problem : outcome.problems) std::cout << "  " << problem << "\n";
  std::cout << "the last events:\n";
  for (const std::string& event : outcome.last_events) std::cout << "  " << event << "\n";
}

}  // namespace

int main(int count, char** words) {
  Options options = read(count, words);
  muster::open_log("/dev/null", false);
  Outcome all;
  for (int i = 0; i < options.count; ++i, ++options.world.seed) {
    const Outcome outcome = World(options.world).run();
    all.events += outcome.events;
    all.records += outcome.records;
    all.controllers += outcome.controllers;
    all.faults += outcome.faults;
    all.remedies += outcome.remedies;
    all.fingerprint = all.fingerprint * 31 + outcome.fingerprint;
    if (outcome.problems.empty()) continue;
    tell(options.world.seed, outcome);
    return 1;
  }
  std::cout << options.count << " seeds hold: " << all.events << " events, " << all.records
            << " records, " << all.faults << " faults, " << all.remedies << " remedies, "
            << all.controllers << " controllers, fingerprint " << all.fingerprint << "\n";
  return 0;
}
