// Which nodes of the cluster are meant by the words of a command line: names, brackets (h[01-04])
// and patterns (h0*). Pure.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model/compute.h"
#include "scheduler/model/result.h"

namespace muster {

// The targets with those of their nodes that are meant, each node once, of the first target that
// has it. Without words all nodes of `target`; without `target` those of any. The Error names a
// word that stands for no node, and what was meant.
Result<std::vector<ComputeTarget>> chosen_nodes(const std::vector<ComputeTarget>& targets,
                                                const std::string& target,
                                                const std::vector<std::string>& words);

}  // namespace muster
