// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random
// Numbers: As Easy as 1, 2, 3", SC 2011).
//
// A number is a pure function of a 64-bit key and a 128-bit counter, so nothing has a state that
// could be lost: a resumed run draws what an uninterrupted one draws. Callers key by the seed and
// count by what the number is for (purpose, parameter, element, epoch), never by rank or by the
// order of calls.
#pragma once

#include <array>
#include <cstdint>

namespace muster {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// Ten rounds; four independent uniform 32-bit words.
PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

// What a stream of numbers is for; part of the counter, so that no two purposes share numbers.
enum class RandomPurpose : std::uint32_t { initial_weights = 1, sample_order = 2 };

// The block of four words at (purpose, stream, index) under `seed`. `stream` and `purpose` fill 32
// bits each.
PhiloxCounter random_block(std::uint64_t seed, RandomPurpose purpose, std::uint32_t stream,
                           std::uint64_t index);

// Two independent standard normal values from four uniform words (Box and Muller 1958; 53-bit
// uniforms in (0,1] and [0,1)).
std::array<double, 2> normal_pair(const PhiloxCounter& words);

}  // namespace muster
