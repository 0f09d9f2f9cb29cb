// A pair of neighbouring tokens as one number, by which tables of pairs are looked up. Pure.
#pragma once

#include <cstdint>

namespace muster {

inline std::uint64_t token_pair_key(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32 | right;
}

}  // namespace muster
