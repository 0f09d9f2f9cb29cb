// What all processors together compute: fp32 products that stay in each one's own caches, with all
// of its vector units. That every processor gets the same bits is part of the check.
#pragma once

#include <chrono>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

struct MatrixProbeOptions {
  std::chrono::milliseconds time{5000};
  std::vector<int> processors;
};

// The median pass. An error when a product is wrong, or differs between processors: which.
Result<double> matrix_gflops(const MatrixProbeOptions& options);

}  // namespace muster
