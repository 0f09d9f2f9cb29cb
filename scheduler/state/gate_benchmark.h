// Whether a job's gate measures a node: by health.start always, by health.failure where the job's
// ranks ran when an attempt of it failed. And how long gates have measured, which is no waiting for
// nodes. Pure.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

struct GateMeasuring {
  bool is_wanted = false;
  std::optional<Time> since;  // older figures are not believed
};

GateMeasuring gate_measuring(const Job& job, const NodeId& node);

// health.failure, as the job file's reader keeps it.
HealthLevel failure_level(const MusterSettings& settings);

// Some node of the job may be measured, now or after a failure.
bool has_measuring_gate(const JobSpec& spec);

// When the gate has measured the node since it was asked, quick checks included. Nothing: it does
// not measure it, no agent answers there, it is checked, or the gate hangs.
std::optional<TimeSpan> span_measured(const State& state, const Job& job, const AttemptNode& node,
                                      Time now);

// Keeps them in order and apart.
void add_measured(std::vector<TimeSpan>& spans, const std::optional<TimeSpan>& span);

// How long nodes of a gang that is being gathered have been measured, side by side counted once.
Milliseconds measured_for(const State& state, const Job& job, const Attempt& attempt, Time now);

}  // namespace muster
