// The memory that a rank of a training command takes, from the words of the command alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/estimate/rank_memory.h"

namespace muster {

struct RunMemory {
  std::uint64_t bytes = 0;      // of the rank that takes most
  std::string cheapest_change;  // that makes it fit, where it does not and one is known
  std::vector<std::string> remarks;  // sharing_remarks()
};

// No run can have the options, whatever the nodes hold.
struct ImpossibleRun {
  std::string why;
};

// `words`: those after "muster-train". `limit_bytes`: what there is for a rank, if that is known.
// Or why none can have these options; or a sentence: why they are not understood.
std::variant<RunMemory, ImpossibleRun, std::string> run_memory(
    const std::vector<std::string>& words, const RankLayout& layout,
    std::optional<std::uint64_t> limit_bytes);

}  // namespace muster
