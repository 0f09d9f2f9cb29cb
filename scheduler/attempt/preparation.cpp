#include "scheduler/attempt/preparation.h"

#include <algorithm>

#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/sentences.h"

namespace muster {

// A node without a link is not stalled but lost, which has a limit of its own.
std::optional<std::string> staging_trouble(Turn& turn, const AttemptNode& node, Time since) {
  if (node.staged) {
    if (node.staged->error.empty()) return std::nullopt;
    return " could not be prepared: " + node.staged->error;
  }
  if (!linked_agent(turn.state, node.id)) return std::nullopt;
  const Time heard = std::max(since, node.staging_seen.value_or(since));
  if (!turn.moment.reached(heard + stage_limit)) return std::nullopt;
  return " could not be prepared: none of the job's files arrived for " +
         duration_text(stage_limit);
}

std::optional<std::string> ports_trouble(const AttemptNode& node, int wanted) {
  if (!node.ports) return std::nullopt;
  const bool enough = node.ports->ports.size() >= static_cast<std::size_t>(wanted);
  if (enough && node.ports->error.empty()) return std::nullopt;
  return " could not reserve " + std::to_string(wanted) + " ports: " + node.ports->error;
}

}  // namespace muster
