// From a healthy gang to running ranks: staging, ports, launch. A node that fails here ends the
// attempt.
#include "scheduler/attempt/parts.h"

#include <algorithm>

#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"
#include "scheduler/state/resume_point.h"
#include "scheduler/state/sentences.h"
#include "scheduler/state/turn.h"

namespace muster {

namespace {

void fail(Turn& turn, const Job& job, const Attempt& attempt, const NodeId& node,
          const std::string& what, bool lasting = false) {
  StopBegun why{
      job.id, attempt.id, StopReason::start_failed, node.value + what, job.spec.muster.stop.grace,
      node};
  why.lasting = lasting;
  turn.decide(std::move(why));
}

bool wants_ports(const State& state, const Job& job, const Attempt& attempt) {
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    if (ports_wanted(state, job, attempt, i) > 0) return true;
  }
  return false;
}

// The agents that will start ranks are remembered at launch, so all must be there. One that is new
// since the gate may have found fewer GPUs.
void begin_launch(Turn& turn, const Job& job, const Attempt& attempt) {
  for (const AttemptNode& node : attempt.nodes) {
    const LinkUp* agent = linked_agent(turn.state, node.id);
    if (!agent) return;
    const auto shortage = gpu_shortage(job.spec, *agent);
    if (shortage) return fail(turn, job, attempt, node.id, " " + *shortage);
  }
  ResumePoint point = choose_resume_point(job, attempt);
  if (job.resume_step.value_or(0) > 0 && point.from->directory.empty()) {
    return fail(turn, job, attempt, attempt.nodes.front().id,
                " has no committed checkpoint of step " + std::to_string(*job.resume_step) +
                    ": muster checkpoint list " + job.id.value + " shows which there are",
                true);
  }
  turn.decide(LaunchBegun{job.id, attempt.id, point.from, point.why, point.went_back,
                          processes_at_launch(turn.state, job.spec, attempt)});
}

void stage(Turn& turn, const Job& job, const Attempt& attempt, Time since) {
  bool all_staged = true;
  for (const AttemptNode& node : attempt.nodes) {
    all_staged = all_staged && node.staged;
    if (const auto what = staging_trouble(turn, node, since)) {
      return fail(turn, job, attempt, node.id, *what, node.staged && node.staged->lasting);
    }
  }
  if (!all_staged) return;
  if (wants_ports(turn.state, job, attempt)) return turn.decide(PortsAsked{job.id, attempt.id});
  begin_launch(turn, job, attempt);
}

void reserve(Turn& turn, const Job& job, const Attempt& attempt, Time since) {
  const AttemptNode* silent = nullptr;
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    const int wanted = ports_wanted(turn.state, job, attempt, i);
    if (wanted == 0) continue;
    const AttemptNode& node = attempt.nodes[i];
    if (!node.ports && !silent) silent = &node;
    if (const auto what = ports_trouble(node, wanted)) {
      return fail(turn, job, attempt, node.id, *what);
    }
  }
  if (!silent) return begin_launch(turn, job, attempt);
  if (!turn.moment.reached(since + reserve_limit)) return;
  fail(turn, job, attempt, silent->id, " reserved no port within " + duration_text(reserve_limit));
}

// Before that no rank is started.
void begin_membership(Turn& turn, const Job& job, const Attempt& attempt) {
  MembersChanged first{job.id, attempt.id, 1, {}, "the ranks of the start"};
  for (const Rank& rank : attempt.ranks) first.ranks.push_back(rank.id);
  turn.decide(std::move(first));
}

// All nodes started: `apply` makes it Running, nothing is left to decide.
void start(Turn& turn, const Job& job, const Attempt& attempt, Time since) {
  if (is_live(job.spec) && !attempt.has_members()) return begin_membership(turn, job, attempt);
  const AttemptNode* silent = nullptr;
  for (const AttemptNode& node : attempt.nodes) {
    if (!is_active(node)) continue;
    if (!node.started && !silent) silent = &node;
    if (!node.started || node.started->error.empty()) continue;
    return fail(turn, job, attempt, node.id, " did not start its ranks: " + node.started->error,
                node.started->lasting);
  }
  if (!silent || !turn.moment.reached(since + start_limit)) return;
  fail(turn, job, attempt, silent->id,
       " did not start its ranks within " + duration_text(start_limit));
}

}  // namespace

void launch(Turn& turn, const Job& job, const Attempt& attempt) {
  if (const auto* phase = phase_of<Staging>(attempt)) {
    return stage(turn, job, attempt, phase->since);
  }
  if (const auto* phase = phase_of<Reserving>(attempt)) {
    return reserve(turn, job, attempt, phase->since);
  }
  if (const auto* phase = phase_of<Starting>(attempt)) start(turn, job, attempt, phase->since);
}

// A node without a link is not stalled but lost, which has a limit of its own.
std::optional<std::string> staging_trouble(Turn& turn, const AttemptNode& node, Time since) {
  if (node.staged) {
    if (node.staged->error.empty()) return std::nullopt;
    return " could not be prepared: " + node.staged->error;
  }
  if (!linked_agent(turn.state, node.id)) return std::nullopt;
  const Time heard = std::max(since, node.staging_seen.value_or(since));
  if (!turn.moment.reached(heard + stage_limit)) return std::nullopt;
  return " could not be prepared: no file of the job arrived for " + duration_text(stage_limit);
}

std::optional<std::string> ports_trouble(const AttemptNode& node, int wanted) {
  if (!node.ports) return std::nullopt;
  const bool enough = node.ports->ports.size() >= static_cast<std::size_t>(wanted);
  if (enough && node.ports->error.empty()) return std::nullopt;
  return " could not reserve " + std::to_string(wanted) + " ports: " + node.ports->error;
}

}  // namespace muster
