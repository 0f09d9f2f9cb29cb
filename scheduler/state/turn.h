// One call of `decide`: the snapshot, the time, what is being decided. Lives for that call only.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

// The time, and every moment in the future that a rule asked about: the nearest is the next
// wake-up, so that waiting and acting can never disagree.
class Moment {
 public:
  explicit Moment(Time now) : now_(now) {}

  bool reached(Time when) {
    if (when <= now_) return true;
    if (!next_ || when < *next_) next_ = when;
    return false;
  }
  Time now() const { return now_; }
  std::optional<Time> next() const { return next_; }

 private:
  Time now_;
  std::optional<Time> next_;
};

// Nodes of which an attempt that runs there may have to hear.
std::set<NodeId> drained_or_unlinked(const State& state);  // interruption.cpp

struct Turn {
  Turn(const State& snapshot, Time now)
      : state(snapshot), moment(now), troubled(drained_or_unlinked(snapshot)) {}

  const State& state;
  Moment moment;
  std::set<NodeId> troubled;     // so that a healthy cluster costs no look at each of its nodes
  std::set<NodeId> given;        // given out in this turn
  std::map<NodeId, JobId> kept;  // and for whom others are kept
  std::map<std::string, JobId>
      closed;  // targets of which no node is left, and for whom they are kept
  std::vector<Decision> decisions;

  template <class D>
  void decide(D decision) {
    decisions.push_back(std::move(decision));
  }
};

// The rules, by what a job is doing. Each adds what is to be done now, if anything.
void take_turn(Turn& turn);                                              // decide.cpp
void gather(Turn& turn, const Job& job, const Attempt& attempt);         // allocate.cpp
void handle_spares(Turn& turn, const Job& job, const Attempt& attempt);  // allocate.cpp
void launch(Turn& turn, const Job& job, const Attempt& attempt);         // launch.cpp
void stop(Turn& turn, const Job& job, const Attempt& attempt);           // stop.cpp
void collect(Turn& turn, const Job& job, const Attempt& attempt);        // stop.cpp
void grow(Turn& turn, const Job& job, const Attempt& attempt);           // scale_up.cpp

// Who leaves an elastic attempt while the others go on, and what follows until the node is
// nobody's; true while there are any. Members go only when enough others remain: else the attempt
// is stopped like any other.                                                    scale_down.cpp
bool release_leavers(Turn& turn, const Job& job, const Attempt& attempt);
bool remove_departing(Turn& turn, const Job& job, const Attempt& attempt);

void serve_queue(Turn& turn);  // queue.cpp

// Nodes that a job restarts on are given to nobody else, whoever is served first. Those that it
// shall avoid are anybody's.                                                         queue.cpp
void keep_for_restarts(Turn& turn);

// Why an attempt that is being prepared or runs must stop now.                interruption.cpp
std::optional<StopBegun> interruption(Turn& turn, const Job& job, const Attempt& attempt);

// With the job's own grace.                                                   interruption.cpp
StopBegun stop_for(const Job& job, const Attempt& attempt, StopReason reason, std::string sentence,
                   std::optional<NodeId> blamed = std::nullopt);

}  // namespace muster
