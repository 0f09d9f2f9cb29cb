#include "launcher/transport/link/retry_pause.h"

#include <algorithm>

namespace muster {

Milliseconds pause_after_drops(int drops, std::mt19937_64& dice) {
  constexpr int first_ms = 100, longest_ms = 3000;
  const int full_ms = std::min(longest_ms, first_ms << std::clamp(drops - 1, 0, 10));
  return Milliseconds(std::uniform_int_distribution<int>(full_ms / 2, full_ms)(dice));
}

}  // namespace muster
