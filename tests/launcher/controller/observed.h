// What a part of the controller tells its loop, kept for the test to look at.
#pragma once

#include <string>
#include <vector>

#include "launcher/controller/agents/pool.h"

namespace muster {

struct Observed : Observer {
  std::vector<Observation> observed;
  int turns = 0;

  void observe(Observation what) override { observed.push_back(std::move(what)); }
  void post_turn() override { ++turns; }
};

}  // namespace muster
