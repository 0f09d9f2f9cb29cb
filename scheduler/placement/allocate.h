// Spares: nodes that a job holds ready, checked and given its files, to take the place of one that
// is lost, drained or unfit. They are kept while the job runs; too few of them stop nothing.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/placement/candidates.h"

namespace muster {

// Whether a node that a job holds is fit to run it: connected, allowed, and past its start gate.
struct Unfit {
  NodeId node;
  Unfitness unfitness;
  std::string reason;
};

// What is wrong with it; nothing yet, when its answers are still awaited.
std::optional<Unfit> unfit(Turn& turn, const Job& job, const AttemptNode& node);

// Why it leaves its attempt for that.
StopReason reason_of(Unfitness unfitness);

// Nothing more is awaited from it before ranks may start there.
bool has_passed_gate(const State& state, const AttemptNode& node);

// One could take a node's place at once.
bool has_ready_spare(Turn& turn, const Job& job, const Attempt& attempt);

std::vector<NodeId> ready_spares(Turn& turn, const Job& job, const Attempt& attempt);

// As many spares more as it wants and there are free nodes for.
void add_spares(Turn& turn, const Job& job, const Attempt& attempt, std::size_t wanted);

// Nodes that this attempt has not found unfit already.
std::vector<Candidate> new_candidates(Turn& turn, const Job& job, const Attempt& attempt);

// Nodes that do not answer. Where a job has a choice of hosts, these are asked all at once before
// it is placed. Of a gathering gang whoever waits is told within seconds which nodes are not
// connected, why and what goes on, other nodes are asked meanwhile, and one that answers takes the
// place of one that certainly cannot be reached. A node that only gives no answer may be slow: it
// keeps its place until `link_limit`. Pure.

// `picks` are the best of the candidates as things look now. True while answers of some of them are
// still to come, for two seconds at most.
bool awaits_hosts(Turn& turn, const Job& job, const std::vector<Candidate>& candidates,
                  const std::vector<NodeId>& picks);

// It is not placed yet and has asked.
bool asks_hosts(const Job& job);

// It had not answered when the time for answers was over; also one that was not asked.
bool is_silent(const State& state, const Job& job, const NodeId& node, Time now);

// Those that were asked before it was placed, are not among `nodes` and are not there; may be
// empty.
std::string absent_text(const State& state, const Job& job, const std::vector<NodeId>& nodes,
                        Time now);

// Those of which it is certain since they were asked: refused, no route, no answer to the end.
std::vector<Unfit> certain_absences(const State& state, const Attempt& attempt);

// Once a node, and not again while the job finds no nodes.
void report_absences(Turn& turn, const Job& job, const Attempt& attempt);

// Further nodes of the target that are worth a look, because some of the gang do not answer.
std::set<NodeId> asked_besides(const State& state, const Job& job);

}  // namespace muster
