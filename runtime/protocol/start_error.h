// StartError: why a run cannot begin, as one sentence for the person who started it.
//
// Thrown before step 1 only; main() prints it once and exits with `exit_cannot_start`.
#pragma once

#include <stdexcept>

namespace muster {

struct StartError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr int exit_cannot_start = 2;

}  // namespace muster
