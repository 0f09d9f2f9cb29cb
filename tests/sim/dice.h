// The only randomness of the simulation: small, and the same on every machine, which the standard
// distributions are not.
#pragma once

#include <cstdint>

#include "scheduler/text/clock.h"

namespace muster::sim {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t draw() {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int upto(int limit) { return static_cast<int>(draw() % static_cast<std::uint64_t>(limit)); }
  bool chance(int percent) { return upto(100) < percent; }
  bool one_in(int many) { return upto(many) == 0; }
  Milliseconds time(Milliseconds from, Milliseconds to) {
    return from + Milliseconds{upto(static_cast<int>((to - from).count()) + 1)};
  }

 private:
  std::uint64_t state_;
};

}  // namespace muster::sim
