// What time it is, for all that the agent decides: an input, so that tests can let it pass. Boot
// time (boot_clock.h) is for leases, the steady clock for how long something may take.
#pragma once

#include <chrono>

#include "runtime/protocol/boot_clock.h"

namespace muster {

class AgentClock {
 public:
  virtual ~AgentClock() = default;
  virtual BootTime boot() const = 0;
  virtual std::chrono::steady_clock::time_point steady() const = 0;
};

class HostClock final : public AgentClock {
 public:
  BootTime boot() const override { return boot_time(); }
  std::chrono::steady_clock::time_point steady() const override {
    return std::chrono::steady_clock::now();
  }
};

}  // namespace muster
