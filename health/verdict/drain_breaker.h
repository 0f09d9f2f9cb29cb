// The fleet's circuit breaker: when one check drains too many nodes at once, the cause is storage,
// subnet manager or power, and draining more helps nobody. It then drains no node until a person
// closes the breaker, and never for what it found before. Plain data and pure functions, for
// whoever sees all nodes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "health/profile.h"
#include "scheduler/model/clock.h"
#include "scheduler/model/ids.h"

namespace muster {

struct DrainedByCheck {
  NodeId node;
  Time at;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("at", self.at);
  }
};

// Class infra: told once, to a person.
struct BreakerIncident {
  Time opened_at;
  std::vector<NodeId> nodes;  // drained before it opened, then those that were spared
  std::string text;           // a sentence

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("opened_at", self.opened_at);
    visit("nodes", self.nodes);
    visit("text", self.text);
  }
};

struct CheckBreaker {
  std::vector<DrainedByCheck> drains;  // within the window, a node once
  std::optional<BreakerIncident> open;
  std::optional<Time> reset_at;  // by hand

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("drains", self.drains);
    visit("open", self.open);
    visit("reset_at", self.reset_at);
  }
};

using DrainBreakers = std::map<std::string, CheckBreaker>;  // by check

struct DrainRequest {
  std::string check;
  NodeId node;
  Time believed_at;  // since when the fault stands
};

enum class DrainAnswer { granted, withheld };

// May the check drain the node? The one too many opens the breaker and is not drained.
DrainAnswer ask_to_drain(DrainBreakers& breakers, const DrainRequest& request,
                         std::size_t nodes_of_fleet, const BreakerProfile& limits, Time now);

// By hand. Findings until now do not count any more, here or later.
void close_breaker(DrainBreakers& breakers, const std::string& check, Time now);

// Without asking for anything: whether a fault of the check that stands since then may drain.
bool is_withheld(const DrainBreakers& breakers, const std::string& check, Time believed_at);

}  // namespace muster
