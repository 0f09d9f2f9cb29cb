// How long the supervisor waits before it starts a controller that died again: not at all after a
// while of service, else ever longer. Never longer than a command waits for a controller.
#pragma once

#include <algorithm>
#include <utility>

#include "scheduler/text/clock.h"

namespace muster {

class RestartPause {
 public:
  Milliseconds after(Milliseconds lived) {
    if (lived < enough) return std::exchange(next_, std::min(2 * next_, longest));
    next_ = shortest;
    return Milliseconds{0};
  }

 private:
  static constexpr Milliseconds enough{5'000};
  static constexpr Milliseconds shortest{250};
  static constexpr Milliseconds longest{8'000};
  Milliseconds next_ = shortest;
};

}  // namespace muster
