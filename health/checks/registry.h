// All checks there are.
#pragma once

#include <vector>

#include "health/model/check.h"

namespace muster {

// By kind: gpu, ib, fab, host, perf.
const std::vector<const CheckSpec*>& every_check();

}  // namespace muster
