// Splitting a loop over the OpenMP threads of the caller. The parts of a loop must not depend on
// each other, so that any number of threads gives the same bits.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>

namespace muster {

// visit(lo, hi) for consecutive parts of [0, count), none smaller than `grain` but the last.
template <class Visit>
void for_ranges(std::size_t count, std::size_t grain, Visit visit) {
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t parts = std::min(threads, count / std::max<std::size_t>(grain, 1));
  if (parts < 2) return visit(std::size_t{0}, count);
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(parts))
  for (std::size_t part = 0; part < parts; ++part) {
    visit(part * count / parts, (part + 1) * count / parts);
  }
}

}  // namespace muster
