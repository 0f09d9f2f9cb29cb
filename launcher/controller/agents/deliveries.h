// Outputs that a job has in stores: what was collected is copied there by a process of its own, for
// as long as State says that it is delivered. Owned by the Controller. One that died meanwhile is
// followed by one that begins again, and what the store has already is not copied twice.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "launcher/controller/agents/remediation.h"
#include "launcher/controller/store/home.h"
#include "scheduler/state/state.h"

namespace muster {

class OutputDeliveries {
 public:
  OutputDeliveries(Home home, std::string binary, const State& state, RunCommand run,
                   Observer& observer);

  // After a turn: begins what is to be delivered, and kills what is no longer wanted.
  void follow();

 private:
  using Key = std::pair<JobId, AttemptId>;
  void begin(const Key& key, const Attempt& attempt);

  Home home_;
  std::string binary_;
  const State& state_;
  RunCommand run_;
  Observer& observer_;
  std::map<Key, std::function<void()>> running_;  // with what kills it
};

}  // namespace muster
