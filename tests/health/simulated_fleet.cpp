#include "tests/health/simulated_fleet.h"

#include <algorithm>

#include "launcher/agent/health/fault_report.h"
#include "scheduler/apply/apply.h"
#include "scheduler/decide/decide.h"
#include "scheduler/model/result.h"

namespace muster {

namespace {

constexpr int rounds_limit = 10'000;
constexpr Milliseconds for_ever{1'000LL * 24 * 3'600'000};

}  // namespace

void SimulatedFleet::add_target(const std::string& name, const std::vector<NodeId>& nodes,
                                const HealthProfile& profile) {
  JobSubmitted job;
  job.job = JobId{"job_of_" + name};
  job.spec.name = job.job.value;
  job.target.name = name;
  job.target.health = profile;
  for (const NodeId& node : nodes) job.target.nodes.emplace_back().id = node;
  apply(state_, {now_, Observation{job}});
  std::get<Queued>(state_.jobs.at(job.job).phase).not_before = now_ + for_ever;
}

void SimulatedFleet::tell(const NodeId& node, const NodeVerdict& verdict) {
  NodeFaultsSeen seen{node, faults_of(verdict), true};
  for (NodeFault& fault : seen.faults) {
    fault.since = std::min(fault.since, now_);
    if (forgets_shared_causes_) fault.shared_cause = false;
  }
  const auto known = state_.nodes.find(node);
  const std::vector<NodeFault> before =
      known == state_.nodes.end() ? std::vector<NodeFault>{} : known->second.faults;
  if (call_for_the_same(before, seen.faults)) return;
  apply(state_, {now_, Observation{seen}});
  settle();
}

void SimulatedFleet::pass_until(Time time) {
  for (auto wake = next_wake(state_, now_); wake && *wake <= time; wake = next_wake(state_, now_)) {
    now_ = *wake;
    settle();
  }
  now_ = std::max(now_, time);
}

void SimulatedFleet::settle() {
  for (int round = 0;; ++round) {
    check(round < rounds_limit, "scheduler did not converge");
    const std::vector<Decision> decisions = decide(state_, now_);
    if (decisions.empty()) return;
    for (const Decision& decision : decisions) {
      note(decision);
      apply(state_, {now_, decision});
    }
  }
}

void SimulatedFleet::note(const Decision& decision) {
  if (const auto* faulted = std::get_if<NodeFaulted>(&decision)) {
    drains_.push_back({faulted->node, faulted->reason, faulted->fault.what, now_});
  } else if (const auto* opened = std::get_if<BreakerOpened>(&decision)) {
    open_breakers_.push_back(opened->target);
  }
}

bool SimulatedFleet::has_drained(const NodeId& node) const {
  return std::ranges::any_of(drains_, [&](const FleetDrain& one) { return one.node == node; });
}

}  // namespace muster
