#include "scheduler/state/gate_benchmark.h"

#include <algorithm>
#include <chrono>

#include "scheduler/model/names.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"

namespace muster {

namespace {

// Nobody asked its ranks to go, and they were started.
bool is_failure(StopReason reason) {
  return reason == StopReason::rank_failed || reason == StopReason::node_lost ||
         reason == StopReason::hung || reason == StopReason::faulty;
}

bool is_failure(const RanThere& there, const AttemptCause& cause) {
  if (there.left) return is_failure(*there.left);
  return is_failure(cause.reason) && cause.failure_class != FailureClass::preempted;
}

// When something failed there the last time, while ranks ran there.
std::optional<Time> failed_at(const Job& job, const NodeId& id) {
  std::optional<Time> latest;
  for (const PastAttempt& past : job.past) {
    for (const RanThere& there : past.ran) {
      if (there.node == id && is_failure(there, past.cause)) latest = there.until;
    }
  }
  const Attempt* attempt = active_attempt(job);
  if (!attempt || !attempt->launched) return latest;
  for (std::size_t i = 0; i < attempt->nodes.size(); ++i) {
    const AttemptNode& node = attempt->nodes[i];
    const bool has_left = node.id == id && is_released(node);
    if (!has_left || !may_have_run(*attempt, i)) continue;
    if (is_failure(node.departure->why.reason)) latest = node.departure->at;
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

bool has_measuring_gate(const JobSpec& spec) {
  const MusterSettings& settings = spec.muster;
  if (settings.health_start == HealthLevel::off) return false;
  return settings.health_start == HealthLevel::full || failure_level(settings) == HealthLevel::full;
}

// Of a gate that hangs nobody can say that it measures.
std::optional<TimeSpan> span_measured(const State& state, const Job& job, const AttemptNode& node,
                                      Time now) {
  if (node.checked || !gate_measuring(job, node.id).is_wanted) return std::nullopt;
  const Node* known = find_node(state, node.id);
  const auto* link = known ? std::get_if<Linked>(&known->link) : nullptr;
  if (!link) return std::nullopt;
  const Time since = std::max(node.joined_at, link->since);
  if (now <= since || now - since >= check_limit) return std::nullopt;
  return TimeSpan{since, now};
}

void add_measured(std::vector<TimeSpan>& spans, const std::optional<TimeSpan>& span) {
  if (!span) return;
  TimeSpan whole = *span;
  std::erase_if(spans, [&](const TimeSpan& one) {
    const bool meets = one.from <= whole.to && whole.from <= one.to;
    if (meets) whole = {std::min(one.from, whole.from), std::max(one.to, whole.to)};
    return meets;
  });
  spans.insert(std::ranges::upper_bound(spans, whole.from, {}, &TimeSpan::from), whole);
}

Milliseconds measured_for(const State& state, const Job& job, const Attempt& attempt, Time now) {
  if (!has_measuring_gate(job.spec)) return Milliseconds{0};
  std::vector<TimeSpan> spans = attempt.measured;
  for (const AttemptNode& node : attempt.nodes) {
    add_measured(spans, span_measured(state, job, node, now));
  }
  Milliseconds total{0};
  for (const TimeSpan& span : spans) {
    total += std::chrono::duration_cast<Milliseconds>(span.to - span.from);
  }
  return total;
}

HealthLevel failure_level(const MusterSettings& settings) {
  const auto kept = settings.other.find("health.failure");
  if (kept == settings.other.end()) return HealthLevel::quick;
  return from_word<HealthLevel>(kept->second).value_or(HealthLevel::quick);
}

}  // namespace muster
