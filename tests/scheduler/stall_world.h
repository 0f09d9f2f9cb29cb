// A run as its agents would tell it, in virtual time: steps of random length, saves, evaluations,
// slow spells, and at most one fault. What the real StallWatch says of it is what a test or
// stall_bench looks at. Same plan and seed, same run.
#pragma once

#include <optional>
#include <random>
#include <vector>

#include "scheduler/failure/stall_watch.h"

namespace muster::test {

struct Pause {    // after every `every` steps
  int every = 0;  // 0: never
  double seconds = 0;
  Doing rank0 = Doing::working;
  Doing others = Doing::working;
};

struct Spell {  // steps that begin in this time take `factor` times as long
  double from_s = 0;
  double to_s = 0;
  double factor = 1;
};

struct Fault {
  double at_s = 0;
  int rank = 0;
  Doing becomes = Doing::stopped;   // that rank; its peers wait for it
  std::optional<double> heals_s{};  // after so long
};

struct RunPlan {
  int ranks = 8;
  bool beats = true;
  bool only_rank0_beats = false;
  Doing computing = Doing::working;
  Doing waiting = Doing::working;  // for a peer: most collectives spin
  double first_step_s = 30;
  double step_s = 1;
  double spread = 0.05;  // sigma of the logarithm of a step's length
  Pause save{};
  Pause evaluation{};
  Spell spell{};
  std::optional<Fault> fault{};
  HangSettings settings{};
  bool beat_before = false;
};

struct Told {
  double at_s = 0;
  StallSeen what;
};

class StallWorld {
 public:
  StallWorld(RunPlan plan, unsigned seed);

  // What is told in that time; again: what follows.
  std::vector<Told> run(double seconds);
  int steps() const { return step_; }
  StallWatch& watch() { return watch_; }

 private:
  struct Phase {
    double ends_s = 0;
    Doing rank0 = Doing::working;
    Doing others = Doing::working;
    bool is_step = false;
  };
  struct Seen {  // by the agent of one rank
    Doing now = Doing::working;
    double since_s = 0;
    Doing told = Doing::working;
    double reported_since_s = 0;
  };

  double length_of_step();
  void next_phase();
  bool is_hit() const;
  Doing doing_of(int rank) const;
  void sample(int rank);
  void tick();

  RunPlan plan_;
  std::mt19937 random_;
  StallWatch watch_;
  double now_s_ = 0;
  int step_ = 0;
  Phase phase_;
  std::vector<Pause> due_;
  std::vector<Seen> seen_;
};

// Those of one kind.
int count_of(const std::vector<Told>& told, StallKind kind);
const Told* first_of(const std::vector<Told>& told, StallKind kind);

}  // namespace muster::test
