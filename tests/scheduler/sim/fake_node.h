// A simulated host with its agent: it keeps what it has heard and started, loses it when it
// crashes, and kills its ranks when its lease ends. Reports wait in the agent until the link is up;
// what it had not yet said when it died is lost.
#pragma once

#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "scheduler/decide/decide.h"

namespace muster::test {

// Small and the same everywhere; the standard distributions differ between libraries.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  int upto(int limit) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(limit)); }
  bool chance(int percent) { return upto(100) < percent; }
  Milliseconds time(int from_ms, int to_ms) {
    return Milliseconds{from_ms + upto(to_ms - from_ms + 1)};
  }

 private:
  std::mt19937_64 engine_;
};

// Checkpoints on storage that all nodes share: newest step of each job.
using SharedDisk = std::map<JobId, CheckpointRef>;

struct FakeRank {
  RankId id;
  bool alive = true;
  Time ends;
  ExitStatus exit;
};

struct FakeAttempt {
  std::vector<FakeRank> ranks;
  std::int64_t members_epoch = 0;  // that the membership file says; 0: there is none
  bool waits = false;              // to become members
  std::int64_t step = 0;
  bool stopping = false;
  bool leaves = false;  // and is given time to do so by itself
  bool is_alive() const;
};

class FakeNode {
 public:
  using Key = std::pair<JobId, AttemptId>;

  FakeNode(NodeId node, Dice& dice, SharedDisk& disk)
      : id(std::move(node)), dice_(dice), disk_(disk) {}

  NodeId id;
  bool host_up = true;
  bool reachable = true;
  bool healthy = true;
  bool refuses_key = false;
  bool stages_badly = false;
  bool stages_never = false;     // its files stop arriving
  bool processes_stick = false;  // SIGKILL does not end them
  int boot = 1;
  int agent = 0;  // 0: none runs
  Time last_heard;
  std::map<Key, FakeAttempt> attempts;

  void start_agent(int number, Time now);
  void kill_agent();  // and with it everything it ran
  void reboot();
  void live(Time now, Milliseconds lease);  // what happens by itself
  void handle(const NodeWork& work, const Job& job, Time now, bool faults);
  void kill_ranks(Time now);  // lets every rank fail by a signal
  // Reports that arrive now; some arrive twice.
  std::vector<Observation> take_reports(Time now);

 private:
  struct Report {
    Time due;
    Observation what;
  };
  void report(Time now, Observation what);
  void start(const NodeWork& work, const Job& job, Time now, bool faults);
  void report_members(const NodeWork& work, const Job& job, Time now, bool faults);
  void stop(const Key& key, bool leaves, Time now);
  void end_rank(const Key& key, FakeRank& rank, ExitStatus status, bool asked, Time now);
  void run(const Key& key, FakeAttempt& attempt, Time now);

  Dice& dice_;
  SharedDisk& disk_;
  std::deque<Report> outbox_;
  std::map<JobId, std::int64_t> newest_attempt_;  // older ones are refused: the fencing epoch
};

}  // namespace muster::test
