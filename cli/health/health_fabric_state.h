// What `muster health fabric` remembers from one run to the next: error counters to compare with,
// and how often what failed where. One file of JSON, kept as health_state.h says.
//
//   {"version": 1, "counts": FabricCounts, "hosts": {HOST: Streaks}}
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "health/fabric/counter_memory.h"
#include "health/verdict/streaks.h"
#include "scheduler/model/result.h"

namespace muster {

struct FabricState {
  FabricCounts counts;
  // Of hosts that something is, or was lately, wrong with; "" is what is no host's.
  std::map<std::string, Streaks> hosts;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("counts", self.counts);
    visit("hosts", self.hosts);
  }
};

std::string encode_fabric_state(const FabricState& state);
Result<FabricState> decode_fabric_state(std::string_view text);

}  // namespace muster
