// What the parts of a controller tell its loop. Called on its thread; nothing is done before the
// caller is back.
#pragma once

#include <string>

#include "launcher/wire/client_message.h"
#include "scheduler/model/observation.h"

namespace muster {

class Observer {
 public:
  virtual ~Observer() = default;

  virtual void observe(Observation what) = 0;  // for the journal
  // For who follows the job.
  virtual void progress(const JobId&, const JobEvent&) {}
  virtual void note(const JobId&, const std::string& /*sentence*/) {}
  // Pending work that waited may be done now, though nothing was observed.
  virtual void post_turn() {}
};

}  // namespace muster
