// A sample as the line that a probe prints of it (probe_line.h).
#pragma once

#include "health/model/performance.h"

namespace muster {

void print_sample(const PerformanceSample& sample);

}  // namespace muster
