// What a message's header may cost before it is built in memory: how deep its CBOR nests and how
// many values it holds. Heavy (nlohmann): included by the codec's source only. Pure.
#pragma once

#include <string>

namespace muster {

// The deepest message of ours nests eight levels; the library recurses once a level.
inline constexpr int header_depth_limit = 64;
// A tree of 100,000 files has 700,000 values; one empty value of a byte takes 16 to 80 in memory.
inline constexpr int header_values_limit = 4'000'000;

// Throws std::runtime_error for a header beyond the limits or that is no CBOR.
void check_header_limits(const std::string& header);

}  // namespace muster
