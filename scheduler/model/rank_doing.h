// What a rank does, seen from outside: its agent reads it from /proc, never from the rank. Plain
// values; they travel between agent and controller and are not journaled.
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/model/ids.h"

namespace muster {

enum class Doing {
  moving,   // bytes go through its files and pipes
  working,  // it uses a processor
  quiet,    // neither, for ten seconds: it waits or sleeps
  stuck,    // the kernel holds it (state D), and nothing moves
  stopped,  // by a signal (state T): by nobody's design it goes on
};

struct RankDoing {
  RankId rank;
  Doing doing = Doing::working;
  std::int64_t age_ms = 0;  // since when it does that, on the node's clock
  std::string process;      // "4711 (python)": the one that is stopped or stuck

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("rank", self.rank);
    visit("doing", self.doing);
    visit("age_ms", self.age_ms);
    visit("process", self.process);
  }
};

}  // namespace muster
