// Measures the hang detection in virtual time, behind scripts/bench-hang: `stall_bench [RUNS]`
// prints `name value unit goal`. Healthy runs of every kind, in none of which anything may be acted
// on; and runs in which a rank stops or hangs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "tests/scheduler/stall_world.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr double minute = 60;
constexpr double hour = 3600;

void print(const char* name, double value, const char* unit, const char* goal) {
  std::printf("%s %.4g %s %s\n", name, value, unit, goal);
}

struct Draw {
  std::mt19937 random;
  double between(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  }
  double evenly_in_log(double low, double high) {
    return std::exp(between(std::log(low), std::log(high)));
  }
  bool one_in(int n) { return std::uniform_int_distribution<int>(1, n)(random) == 1; }
  Doing any(std::initializer_list<Doing> of) {
    const auto at = std::uniform_int_distribution<std::size_t>(0, of.size() - 1)(random);
    return of.begin()[at];
  }
};

// Steps from 0.1 s to a minute with tails up to a factor of ten; saves and evaluations from
// seconds to ten minutes; ranks that compute, spin, sleep or read all the time.
RunPlan healthy_run(Draw& draw) {
  RunPlan plan;
  plan.ranks = draw.one_in(4) ? 64 : 8;
  plan.beats = !draw.one_in(5);
  plan.only_rank0_beats = draw.one_in(3);
  plan.computing = draw.any({Doing::working, Doing::quiet, Doing::moving});
  plan.first_step_s = draw.evenly_in_log(1, 15 * minute);
  plan.step_s = draw.evenly_in_log(0.1, minute);
  plan.spread = draw.evenly_in_log(0.02, 0.8);
  const int often = static_cast<int>(draw.evenly_in_log(20, 2000));
  if (draw.one_in(2)) {
    plan.save = {often, draw.evenly_in_log(2, 10 * minute), Doing::moving,
                 draw.any({Doing::quiet, Doing::working})};
  }
  if (draw.one_in(3)) {
    plan.evaluation = {often * 3, draw.evenly_in_log(5, 10 * minute), Doing::working,
                       Doing::working};
  }
  return plan;
}

// Ten times as slow for ten minutes, at some time after it has found its pace.
RunPlan slow_run(Draw& draw) {
  RunPlan plan = healthy_run(draw);
  const double from_s = plan.first_step_s + std::max(5 * minute, 20 * plan.step_s);
  plan.spell = {from_s, from_s + 10 * minute, 10};
  return plan;
}

struct Soak {
  int acted = 0, warned = 0, tellings = 0;
  double hours = 0;
};

Soak soak(int runs, RunPlan (*plan_of)(Draw&), unsigned seed) {
  Draw draw{std::mt19937(seed)};
  Soak sum;
  for (int i = 0; i < runs; ++i) {
    const RunPlan plan = plan_of(draw);
    const double length_s = std::max(hour, plan.spell.to_s + 10 * minute);
    const auto told = StallWorld(plan, seed + static_cast<unsigned>(i)).run(length_s);
    const int acted = count_of(told, StallKind::hung);
    if (acted > 0) {
      const std::string& why = first_of(told, StallKind::hung)->what.sentence;
      std::fprintf(stderr, "run %d: %s\n", i, why.c_str());
    }
    sum.acted += acted;
    sum.warned += told.empty() ? 0 : 1;
    sum.tellings += static_cast<int>(told.size());
    sum.hours += length_s / hour;
  }
  return sum;
}

struct Delay {
  std::vector<double> named, acted;
  int wrong = 0;
};

Delay delays(int runs, Doing becomes, Doing waiting, bool beats, double step_s) {
  Draw draw{std::mt19937(7)};
  Delay found;
  for (int i = 0; i < runs; ++i) {
    RunPlan plan;
    plan.ranks = 64;
    plan.beats = beats;
    plan.step_s = step_s;
    plan.waiting = waiting;
    plan.fault = Fault{10 * minute + draw.between(0, step_s), i % 64, becomes};
    const auto told = StallWorld(plan, static_cast<unsigned>(i)).run(45 * minute);
    const auto named = std::find_if(told.begin(), told.end(), [&](const Told& one) {
      return one.what.rank == RankId{i % 64};
    });
    const Told* acted = first_of(told, StallKind::hung);
    const double at_s = plan.fault->at_s;
    found.named.push_back(named == told.end() ? 1e9 : named->at_s - at_s);
    found.acted.push_back(acted == nullptr ? 1e9 : acted->at_s - at_s);
    const auto rank = acted == nullptr ? std::nullopt : acted->what.rank;
    found.wrong += rank && rank != RankId{i % 64} ? 1 : 0;
  }
  return found;
}

double worst(const std::vector<double>& all) {
  return *std::max_element(all.begin(), all.end());
}

}  // namespace

int main(int count, char** words) {
  const int runs = count > 1 ? std::stoi(words[1]) : 1000;
  const Soak healthy = soak(runs, healthy_run, 1);
  const Soak slow = soak(runs, slow_run, 100'000);
  print("virtual_healthy_hours", healthy.hours, "hours", "-");
  print("virtual_healthy_acted_on", healthy.acted, "runs", "<=0");
  print("virtual_healthy_tellings_per_hour", healthy.tellings / healthy.hours, "records", "<=10");
  print("virtual_slow_hours", slow.hours, "hours", "-");
  print("virtual_slow_acted_on", slow.acted, "runs", "<=0");
  print("virtual_slow_warned", 100.0 * slow.warned / runs, "%", "-");

  const Delay stopped = delays(100, Doing::stopped, Doing::working, true, 2);
  print("virtual_stopped_named_worst", worst(stopped.named) / 2, "heartbeats", "<=3");
  print("virtual_stopped_acted_worst", worst(stopped.acted), "s", "<=30");
  const Delay blind = delays(100, Doing::stopped, Doing::quiet, false, 2);
  print("virtual_stopped_named_without_steps_worst", worst(blind.named), "s", "<=60");
  const Delay quiet = delays(100, Doing::quiet, Doing::working, true, 2);
  print("virtual_deadlock_acted_worst", worst(quiet.acted), "s", "<=180");
  print("virtual_wrong_names", stopped.wrong + blind.wrong + quiet.wrong, "runs", "<=0");
}
