// Outputs that a job has in stores: once they are collected here, a process copies them there; the
// collection ends when it does. Owned by the Controller. A controller that dies meanwhile collects
// again, and what the store has already is not copied twice.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "launcher/controller/agents/remediation.h"
#include "launcher/controller/store/home.h"
#include "launcher/os/timers.h"
#include "scheduler/decide/decide.h"

namespace muster {

class OutputUploads {
 public:
  OutputUploads(Timers& timers, Home home, std::string binary, RunCommand run, Observer& observer);

  // Where the job has outputs in stores: begun, and `collected` is observed at its end, with what
  // went wrong. False: there is nothing to do. `is_over`: the job has succeeded, and its outputs
  // become data of the catalogue.
  bool begin(const OutputsCollected& collected, bool is_over);

 private:
  void keep_alive(const OutputsCollected& collected);

  Timers& timers_;
  Home home_;
  std::string binary_;
  RunCommand run_;
  Observer& observer_;
  std::map<JobId, std::unique_ptr<Alarm>> running_;  // by which the collection is seen to go on
};

}  // namespace muster
