// The figures in what `muster health active -o json` wrote, by a child or on another node: read
// with distrust, whoever asked for them. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "health/model/performance.h"
#include "scheduler/model/result.h"

namespace muster {

// An Error: it is no such text, or one of its figures makes no sense.
Result<std::vector<PerformanceSample>> read_measured(std::string_view text);

}  // namespace muster
