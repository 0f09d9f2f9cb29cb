// How well faults of a model fabric of 64 leaves of 16 nodes are found, beside the fixed pairs that
// tools commonly use. Prints `name value unit goal` of each figure; scripts/bench-localise adds the
// verdicts. An argument is the number of runs of each case.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>

#include "tests/health/fault_isolation/localise_fabric.h"

namespace {

using namespace muster;

constexpr double two_percent = 0.02;
bool tells = false;  // each run that went wrong

struct FaultCase {
  const char* name;
  FabricFaultKind kind;
  double factor;
  bool only_with_rails = false;
};

constexpr FaultCase single_faults[] = {
    {"node 10 % slow", FabricFaultKind::node, 0.9},
    {"node at half", FabricFaultKind::node, 0.5},
    {"node silent", FabricFaultKind::node, 0},
    {"GPU 10 % slow", FabricFaultKind::inside_node, 0.9, true},
    {"rail 10 % slow", FabricFaultKind::rail, 0.9, true},
    {"rail silent", FabricFaultKind::rail, 0, true},
    {"link 10 % slow", FabricFaultKind::link, 0.9},
    {"link at half", FabricFaultKind::link, 0.5},
    {"leaf 10 % slow", FabricFaultKind::leaf, 0.9},
    {"leaf silent", FabricFaultKind::leaf, 0},
};

struct Tally {
  int runs = 0;
  int right = 0;
  int rounds_max = 0;
  int in_three_rounds = 0;
  int healthy_nodes_named = 0;
  int healthy_paths_named = 0;
  int faults = 0;
  int faults_named = 0;
  double seconds = 0;
  void add(const Tally& other) {
    runs += other.runs;
    right += other.right;
    rounds_max = std::max(rounds_max, other.rounds_max);
    in_three_rounds += other.in_three_rounds;
    healthy_nodes_named += other.healthy_nodes_named;
    healthy_paths_named += other.healthy_paths_named;
    faults += other.faults;
    faults_named += other.faults_named;
    seconds += other.seconds;
  }
};

using Names = std::set<std::string>;

std::string link_text(std::size_t link) {
  return "link " + std::to_string(link);
}

// A path that goes over a slow link stands for it.
std::string text_of(const FaultVerdict& verdict, const std::vector<FabricFault>& faults,
                    const ModelFabric& fabric) {
  for (const FabricFault& fault : faults) {
    if (verdict.kind != FaultKind::path || fault.kind != FabricFaultKind::link) continue;
    if (fabric.cross(verdict.names[0], verdict.names[1], fault.place))
      return link_text(fault.place);
  }
  std::string text(word_of(verdict.kind));
  for (const std::string& name : verdict.names) text += " " + name;
  return verdict.rail.empty() ? text : text + " " + verdict.rail;
}

// A fault as the verdict that is right. With one rail nothing tells it from its node.
std::string text_of(const FabricFault& fault, const FabricShape& shape, const ModelFabric& fabric) {
  switch (fault.kind) {
    case FabricFaultKind::link:
      return link_text(fault.place);
    case FabricFaultKind::leaf:
      return "leaf " + fabric.leaf_name(fault.place);
    case FabricFaultKind::rail:
      if (shape.rails > 1) {
        return "rail " + fabric.node_name(fault.place) + " " + fabric.rail_name(fault.rail);
      }
      [[fallthrough]];
    default:
      return "node " + fabric.node_name(fault.place);
  }
}

Tally localise(const FabricShape& shape, const std::vector<FabricFault>& faults, double noise,
               std::uint64_t seed) {
  ModelFabric fabric(shape, faults, noise, seed);
  SearchSettings settings;
  settings.seed = seed * 2 + 1;
  std::clock_t spent = -std::clock();
  FaultSearch search(fabric.nodes(), settings);
  while (const auto round = search.next_round()) {
    spent += std::clock();
    const auto results = fabric.run(round->tests);
    spent -= std::clock();
    for (const PairResult& result : results) search.add(result);
  }
  Tally tally;
  spent += std::clock();
  tally.seconds = static_cast<double>(spent) / CLOCKS_PER_SEC;  // of the processor
  Names right;
  Names faulty_nodes;
  for (const FabricFault& fault : faults) {
    right.insert(text_of(fault, shape, fabric));
    if (fault.kind != FabricFaultKind::link && fault.kind != FabricFaultKind::leaf) {
      faulty_nodes.insert(fabric.node_name(fault.place));
    }
  }
  Names named;
  for (const FaultVerdict& verdict : search.verdicts()) {
    if (verdict.kind == FaultKind::clean || verdict.kind == FaultKind::doubtful) continue;
    const std::string text = text_of(verdict, faults, fabric);
    named.insert(text);
    if (drains(verdict.kind) && faulty_nodes.count(verdict.names.front()) == 0) {
      ++tally.healthy_nodes_named;
    } else if (!drains(verdict.kind) && right.count(text) == 0) {
      ++tally.healthy_paths_named;
    }
  }
  tally.runs = 1;
  tally.right = named == right;
  tally.rounds_max = search.rounds();
  tally.in_three_rounds = tally.rounds_max <= 3;
  tally.faults = static_cast<int>(right.size());
  for (const std::string& name : right) tally.faults_named += named.count(name) > 0;
  if (tells && (!tally.right || tally.rounds_max > 3)) {
    std::fprintf(stderr,
                 "seed %llu, %zu rails, %d rounds; faults:", static_cast<unsigned long long>(seed),
                 shape.rails, tally.rounds_max);
    for (const std::string& name : right) std::fprintf(stderr, " [%s]", name.c_str());
    std::fprintf(stderr, "; named:");
    for (const FaultVerdict& verdict : search.verdicts()) {
      std::fprintf(stderr, " [%s]", text_of(verdict, faults, fabric).c_str());
      for (const std::string& line : verdict.evidence) std::fprintf(stderr, " %s;", line.c_str());
    }
    std::fprintf(stderr, "\n");
  }
  return tally;
}

// Pairs (0,1), (2,3) …, then (1,2), (3,4) …; who is in two bad pairs is bad.
Tally pair_fixedly(const FabricShape& shape, const std::vector<FabricFault>& faults, double noise,
                   std::uint64_t seed) {
  ModelFabric fabric(shape, faults, noise, seed);
  std::vector<int> bad_pairs(shape.nodes(), 0);
  for (std::size_t first = 0; first < 2; ++first) {
    std::vector<PairTest> tests;
    for (std::size_t a = first; a < shape.nodes(); a += 2) {
      tests.push_back({a, (a + 1) % shape.nodes(), {}});
    }
    const auto results = fabric.run(tests);
    std::vector<double> values;
    for (const PairResult& result : results) {
      if (result.gb_per_s) values.push_back(*result.gb_per_s);
    }
    const Baseline baseline({values}, {}, {});
    for (const PairResult& result : results) {
      const PairGrade reading = baseline.grade(0, result.gb_per_s);
      if (reading != PairGrade::bad && reading != PairGrade::unknown) continue;
      ++bad_pairs[result.test.a];
      ++bad_pairs[result.test.b];
    }
  }
  Names faulty;
  for (const FabricFault& fault : faults) {
    if (fault.kind != FabricFaultKind::link && fault.kind != FabricFaultKind::leaf) {
      faulty.insert(fabric.node_name(fault.place));
    }
  }
  Tally tally;
  tally.runs = 1;
  tally.rounds_max = 2;
  Names named;
  for (std::size_t node = 0; node < shape.nodes(); ++node) {
    if (bad_pairs[node] < 2) continue;
    named.insert(fabric.node_name(node));
    tally.healthy_nodes_named += faulty.count(fabric.node_name(node)) == 0;
  }
  tally.right = named == faulty && faulty.size() == faults.size();
  tally.faults = static_cast<int>(faults.size());
  for (const std::string& name : faulty) tally.faults_named += named.count(name) > 0;
  return tally;
}

using Method = Tally (*)(const FabricShape&, const std::vector<FabricFault>&, double,
                         std::uint64_t);

FabricFault a_fault(const FaultCase& from, const FabricShape& shape, std::mt19937_64& random) {
  FabricFault fault{from.kind, 0, 0, from.factor};
  std::size_t places = shape.nodes();
  if (from.kind == FabricFaultKind::link) places = shape.links();
  if (from.kind == FabricFaultKind::leaf) places = shape.leaves;
  fault.place = static_cast<std::size_t>(random() % places);
  fault.rail = static_cast<std::size_t>(random() % shape.rails);
  return fault;
}

Tally run_single(Method method, std::size_t rails, double noise, int runs,
                 bool only_nodes = false) {
  const FabricShape shape{64, 16, rails};
  Tally sum;
  std::uint64_t seed = 1;
  for (const FaultCase& of : single_faults) {
    if (of.only_with_rails && rails == 1) continue;
    if (only_nodes && of.kind != FabricFaultKind::node) continue;
    Tally of_case;
    for (int i = 0; i < runs; ++i, ++seed) {
      std::mt19937_64 random(seed);
      of_case.add(method(shape, {a_fault(of, shape, random)}, noise, seed));
    }
    if (tells) {
      std::fprintf(stderr, "%zu rails, noise %g, %s: %d of %d, %d rounds\n", rails, noise, of.name,
                   of_case.right, of_case.runs, of_case.rounds_max);
    }
    sum.add(of_case);
  }
  return sum;
}

// Two to four at random places; every fourth time all are links of one spine.
std::vector<FabricFault> several_faults(const FabricShape& shape, std::mt19937_64& random) {
  std::vector<FabricFault> faults;
  const std::size_t count = 1 + random() % 4;
  const bool of_one_spine = random() % 4 == 0;
  const std::size_t rail = random() % shape.rails;
  const std::size_t spine = random() % shape.nodes_per_leaf;
  while (faults.size() < count) {
    FaultCase of = single_faults[random() % std::size(single_faults)];
    if (of.kind == FabricFaultKind::leaf || (of.only_with_rails && shape.rails == 1)) continue;
    if (of_one_spine) of = {"", FabricFaultKind::link, 0.9};
    FabricFault fault = a_fault(of, shape, random);
    if (of_one_spine) {
      const std::size_t leaf = random() % shape.leaves;
      fault.place = (rail * shape.leaves + leaf) * shape.nodes_per_leaf + spine;
    }
    const bool is_taken = std::any_of(faults.begin(), faults.end(), [&](const FabricFault& other) {
      return (other.kind == FabricFaultKind::link) == (fault.kind == FabricFaultKind::link) &&
             other.place == fault.place;
    });
    if (!is_taken) faults.push_back(fault);
  }
  return faults;
}

Tally run_several(Method method, std::size_t rails, double noise, int runs) {
  const FabricShape shape{64, 16, rails};
  Tally sum;
  for (int i = 0; i < runs; ++i) {
    const auto seed = static_cast<std::uint64_t>(100000 + i);
    std::mt19937_64 random(seed);
    sum.add(method(shape, several_faults(shape, random), noise, seed));
  }
  return sum;
}

Tally run_healthy(Method method, std::size_t rails, int runs) {
  Tally sum;
  for (int i = 0; i < runs; ++i) {
    sum.add(method({64, 16, rails}, {}, two_percent, static_cast<std::uint64_t>(200000 + i)));
  }
  return sum;
}

void figure(const std::string& name, double value, const char* unit, const char* goal) {
  std::printf("%s %.4g %s %s\n", name.c_str(), value, unit, goal);
}
double share(double part, int all) {
  return all > 0 ? part / all : 1;
}

// A path is measured twice and no more: noise hides some that are 10 % slow.
void measure(std::size_t rails, int runs, Tally& all) {
  const std::string with = "_" + std::to_string(rails) + "_rail" + (rails > 1 ? "s" : "");
  const Tally exact = run_single(localise, rails, 0, runs / 2);
  figure("one_fault_rounds_max" + with, exact.rounds_max, "rounds", "<=3");
  figure("one_fault_named" + with, share(exact.right, exact.runs), "share", ">=1");
  const Tally noisy = run_single(localise, rails, two_percent, runs);
  figure("one_fault_with_noise_rounds_max" + with, noisy.rounds_max, "rounds", "<=3");
  figure("one_fault_with_noise_in_3_rounds" + with, share(noisy.in_three_rounds, noisy.runs),
         "share", "-");
  figure("one_fault_with_noise_named" + with, share(noisy.right, noisy.runs), "share", ">=0.9");
  const Tally several = run_several(localise, rails, 0, runs * 2);
  figure("one_to_four_faults_named" + with, share(several.faults_named, several.faults), "share",
         ">=0.99");
  figure("one_to_four_faults_rounds_max" + with, several.rounds_max, "rounds", "-");
  const Tally several_noisy = run_several(localise, rails, two_percent, runs * 4);
  figure("one_to_four_faults_with_noise_named" + with,
         share(several_noisy.faults_named, several_noisy.faults), "share", ">=0.9");
  figure("one_to_four_faults_with_noise_rounds_max" + with, several_noisy.rounds_max, "rounds",
         "-");
  const Tally healthy = run_healthy(localise, rails, runs * 2);
  for (const Tally& tally : {exact, noisy, several, several_noisy, healthy}) all.add(tally);
}

// Of nodes alone as well: about links and leaves they say nothing.
void measure_fixed_pairs(int runs) {
  const Tally nodes = run_single(pair_fixedly, 1, two_percent, runs, true);
  figure("fixed_pairs_one_node_with_noise_named", share(nodes.right, nodes.runs), "share", "-");
  figure("fixed_pairs_one_node_healthy_nodes_named",
         1000 * share(nodes.healthy_nodes_named, nodes.runs), "per_1000_runs", "-");
  const Tally noisy = run_single(pair_fixedly, 1, two_percent, runs);
  figure("fixed_pairs_one_fault_with_noise_named", share(noisy.right, noisy.runs), "share", "-");
  const Tally several = run_several(pair_fixedly, 1, two_percent, runs * 4);
  figure("fixed_pairs_one_to_four_faults_with_noise_named",
         share(several.faults_named, several.faults), "share", "-");
  figure("fixed_pairs_one_to_four_healthy_nodes_named",
         1000 * share(several.healthy_nodes_named, several.runs), "per_1000_runs", "-");
}

}  // namespace

int main(int argc, char** argv) {
  int runs = 24;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--tell") == 0) {
      tells = true;
    } else {
      runs = std::max(2, static_cast<int>(std::strtol(argv[i], nullptr, 10)));
    }
  }
  Tally one_rail;
  measure(1, runs * 4, one_rail);
  Tally eight_rails;
  measure(8, std::max(2, runs / 4), eight_rails);
  figure("time_per_verdict_1_rail", 1000 * one_rail.seconds / one_rail.runs, "ms", "<=100");
  figure("time_per_verdict_8_rails", 1000 * eight_rails.seconds / eight_rails.runs, "ms", "<=1000");
  Tally all = one_rail;
  all.add(eight_rails);
  figure("localisations", all.runs, "runs", "-");
  figure("healthy_nodes_named", all.healthy_nodes_named, "nodes", "<=0");
  figure("healthy_paths_or_leaves_named", all.healthy_paths_named, "parts", "<=0");
  measure_fixed_pairs(runs * 4);
  return 0;
}
