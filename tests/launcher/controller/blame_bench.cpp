// Prints what scripts/bench-blame measures: `name value unit goal`, a line for each figure; each
// wrong name goes to stderr with the seed that made it.
//
//   blame_bench [PLACEMENTS [FIRST_SEED]]     placements of each fault, default 50 from seed 1
#include <charconv>
#include <cstdio>
#include <string_view>

#include "tests/launcher/controller/blame_world.h"

using namespace muster::test;

namespace {

struct Tally {
  int tried = 0;
  int right = 0;
  int wrong = 0;

  void count(const Verdict& verdict) {
    ++tried;
    right += verdict.right ? 1 : 0;
    wrong += verdict.names && !verdict.right ? 1 : 0;
  }
  double share(int of) const { return static_cast<double>(of) / tried; }
};

std::uint64_t number(int argc, char** argv, int index, std::uint64_t otherwise) {
  if (argc <= index) return otherwise;
  const std::string_view text = argv[index];
  std::from_chars(text.data(), text.data() + text.size(), otherwise);
  return otherwise;
}

void print(const char* name, double value, const char* unit, const char* goal) {
  std::printf("%s %.4g %s %s\n", name, value, unit, goal);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t placements = number(argc, argv, 1, 50);
  const std::uint64_t first = number(argc, argv, 2, 1);
  Tally muster;
  Tally torchrun;
  for (int kind = 0; kind < fault_count; ++kind) {
    const Fault fault = static_cast<Fault>(kind);
    Tally of_kind;
    for (std::uint64_t seed = first; seed < first + placements; ++seed) {
      const Trial trial = try_fault(fault, seed);
      muster.count(trial.muster);
      of_kind.count(trial.muster);
      torchrun.count(trial.torchrun);
      if (trial.muster.right || !trial.muster.names) continue;
      std::fprintf(stderr, "wrong name: %s, seed %llu: %s\n", fault_name(fault),
                   static_cast<unsigned long long>(seed), trial.muster.sentence.c_str());
    }
    const std::string_view name = fault_name(fault);
    std::printf("right_%.*s %.4g share -\n", static_cast<int>(name.size()), name.data(),
                of_kind.share(of_kind.right));
  }
  print("trials", muster.tried, "faults", "-");
  print("wrong_names", muster.wrong, "names", "<=0");
  print("right", muster.share(muster.right), "share", ">=0.9");
  print("cannot_tell", muster.share(muster.tried - muster.right - muster.wrong), "share", "<=0.1");
  print("torchrun_rule_right", torchrun.share(torchrun.right), "share", "-");
  print("torchrun_rule_wrong_names", torchrun.wrong, "names", "-");
}
