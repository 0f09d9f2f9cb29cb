// Faults of a job of 64 ranks as a real cluster would show them: nodes whose clocks differ and
// drift, messages that take their time, agents that are held up, ranks that fall after the first.
// What muster's agents would say of it goes through the offset estimator and the attribution of the
// product. The truth is kept beside it. Every number of the model is in blame_world.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/ids.h"

namespace muster::test {

enum class Fault {
  segmentation_fault,
  kernel_out_of_memory,
  killed_from_outside,
  failed_assertion,
  exception,
  gpu_out_of_memory,
  exit_without_a_word,
  bus_error,
  terminated_from_outside,
  node_without_power,
  agent_killed,
  hang,  // the others' watchdogs end them; whoever hangs does not end: nobody may be named
};
inline constexpr int fault_count = 12;
const char* fault_name(Fault fault);

struct Verdict {
  bool names = false;
  bool right = false;  // of a hang: names nobody
  std::string sentence;
};

struct Trial {
  Verdict muster;
  Verdict torchrun;  // the earliest whole second of each node's own clock, of the same exits
};

Trial try_fault(Fault fault, std::uint64_t seed);

}  // namespace muster::test
