// A simulated cluster under the real core: hosts crash, links drop, checks fail, ranks die, reports
// come late or twice, the controller restarts. Everything follows from the seed.
//
// Oracles that the core cannot fool: at every start of ranks, no rank of an older attempt of the
// job and none of another job is alive where it must not be.
#pragma once

#include <string>
#include <vector>

#include "scheduler/apply/apply.h"
#include "tests/scheduler/sim/fake_node.h"
#include "tests/sim/model/audit.h"
#include "tests/sim/model/invariants.h"

namespace muster::test {

struct WorldLimits {
  int fault_ticks = 150;
  Seconds calm_limit{6 * 3600};  // after the faults every job ends within it
};

class World {
 public:
  explicit World(std::uint64_t seed, WorldLimits limits = {});

  void run();  // a time of faults, then calm until every job has ended

  const std::vector<Record>& journal() const { return journal_; }
  const State& state() const { return state_; }
  std::vector<std::string> problems() const;  // every broken promise, as sentences

 private:
  void tick(Milliseconds passed, bool faults);
  void submit_some(int percent);
  void break_something();
  void break_node(FakeNode& node);
  void give_notice(const FakeNode& node);
  std::optional<Milliseconds> move_after();
  void heal();
  void restart_controller();

  void update_links();
  void update_link(FakeNode& node);
  void deliver_work(bool faults);
  void deliver_reports();
  void check_start(const NodeWork& work);
  void check_ranks_apart(const NodeWork& work, const FakeNode& other, const FakeAttempt& there);
  void check_all_quiet();

  void observe(const Observation& what);
  void settle(bool may_crash);
  void write(const Record& record);
  void check_wake();

  bool is_connected(const FakeNode& node) const;
  FakeNode& node(const NodeId& id);

  Dice dice_;
  WorldLimits limits_;
  int jobs_most_;  // few leave room for elastic ones to grow
  SharedDisk disk_;
  std::vector<FakeNode> nodes_;
  State state_;
  std::vector<Record> journal_;
  RecordAudit audit_;
  std::vector<std::string> problems_;
  Time now_ = from_ms(1'000'000);
  int jobs_ = 0;
  int agents_ = 0;
  bool faults_ = true;
};

}  // namespace muster::test
