#include "scheduler/state/job_state.h"

#include <algorithm>

#include "scheduler/state/lookup.h"

namespace muster {

namespace {

const char* phase_name(const Attempt& attempt) {
  struct Name {
    const char* operator()(const Gathering&) const { return "Preparing"; }
    const char* operator()(const Staging&) const { return "Preparing"; }
    const char* operator()(const Reserving&) const { return "Starting"; }
    const char* operator()(const Starting&) const { return "Starting"; }
    const char* operator()(const Running&) const { return "Running"; }
    const char* operator()(const Stopping&) const { return "Finalizing"; }
    const char* operator()(const Collecting&) const { return "Finalizing"; }
  };
  return std::visit(Name{}, attempt.phase);
}

}  // namespace

const char* job_state_name(const State& state, const Job& job) {
  const Attempt* attempt = active_attempt(job);
  if (!attempt || !phase_of<Gathering>(*attempt)) return job_state_name(job);
  const bool connected =
      std::all_of(attempt->nodes.begin(), attempt->nodes.end(),
                  [&](const AttemptNode& node) { return linked_agent(state, node.id) != nullptr; });
  return connected ? "Preparing" : "Provisioning";
}

const char* job_state_name(const Job& job) {
  if (const Attempt* attempt = active_attempt(job)) return phase_name(*attempt);
  const auto* queued = std::get_if<Queued>(&job.phase);
  const bool untouched = queued && queued->reason.empty() && job.past.empty();
  return untouched ? "NotStarted" : "Queued";
}

}  // namespace muster
