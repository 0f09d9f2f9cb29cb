// Whether a job's gate measures a node: by health.start always, by health.failure where the job's
// ranks ran when an attempt of it failed. Pure.
#pragma once

#include <optional>

#include "scheduler/model/state.h"

namespace muster {

struct GateMeasuring {
  bool is_wanted = false;
  std::optional<Time> since;  // older figures are not believed
};

GateMeasuring gate_measuring(const Job& job, const NodeId& node);

// health.failure, as the job file's reader keeps it.
HealthLevel failure_level(const MusterSettings& settings);

}  // namespace muster
