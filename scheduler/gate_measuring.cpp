#include "scheduler/gate_measuring.h"

#include <algorithm>

#include "scheduler/lookup.h"
#include "scheduler/model/names.h"

namespace muster {

namespace {

// Nobody asked its ranks to go, and they were started.
bool is_failure(StopReason reason) {
  switch (reason) {
    case StopReason::rank_failed:
    case StopReason::node_lost:
    case StopReason::hung:
    case StopReason::faulty:
      return true;
    case StopReason::canceled:
    case StopReason::time_limit:
    case StopReason::start_failed:
    case StopReason::drained:
    case StopReason::finished:
    case StopReason::preempted:
      break;
  }
  return false;
}

bool is_failure(const AttemptCause& cause) {
  return is_failure(cause.reason) && cause.failure_class != FailureClass::preempted;
}

bool failed_and_left(const AttemptNode& node) {
  return node.released && node.leaves && node.may_have_started() && is_failure(node.leaves->reason);
}

// When something failed there the last time.
std::optional<Time> failed_at(const Job& job, const NodeId& id) {
  std::optional<Time> latest;
  for (const PastAttempt& past : job.past) {
    const bool took_part = std::ranges::find(past.nodes, id) != past.nodes.end();
    if (took_part && is_failure(past.cause)) latest = past.ended_at;
  }
  const Attempt* attempt = active_attempt(job);
  if (!attempt || !attempt->launched) return latest;
  for (const AttemptNode& node : attempt->nodes) {
    if (node.id == id && failed_and_left(node)) latest = node.left_at;
  }
  return latest;
}

}  // namespace

GateMeasuring gate_measuring(const Job& job, const NodeId& node) {
  const MusterSettings& settings = job.spec.muster;
  if (settings.health_start == HealthLevel::off) return {};
  if (failure_level(settings) == HealthLevel::full) {
    if (const auto failed = failed_at(job, node)) return {true, failed};
  }
  return {settings.health_start == HealthLevel::full, std::nullopt};
}

HealthLevel failure_level(const MusterSettings& settings) {
  const auto kept = settings.other.find("health.failure");
  if (kept == settings.other.end()) return HealthLevel::quick;
  return from_word<HealthLevel>(kept->second).value_or(HealthLevel::quick);
}

}  // namespace muster
