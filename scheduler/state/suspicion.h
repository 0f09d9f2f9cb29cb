// What a node did to jobs, remembered across them. A job that it broke weighs 1, half of that a
// week later; a job counts once. Pure, in whole numbers: the same on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

// In thousandths of a job.
std::int64_t suspicion_of(const std::vector<NodeEvidence>& evidence, Time now);

// With one piece more: the newest of each job, and no more than anybody reads.
std::vector<NodeEvidence> with_evidence(std::vector<NodeEvidence> evidence, NodeEvidence piece);

// When it will have faded below `limit`; `now` or earlier: it has.
Time faded_below(const std::vector<NodeEvidence>& evidence, std::int64_t limit, Time now);

// What speaks against the node since somebody said last that it is sound.
bool is_suspect(const Node& node, Time now);

}  // namespace muster
