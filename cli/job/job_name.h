// Names for jobs that were given none: `adjective_noun_<10 characters>`. Pure; randomness is an
// input.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace muster {

using NameBytes = std::array<std::uint8_t, 16>;

// Lower-case letters, digits and underscores.
std::string job_name_from(const NameBytes& random);

}  // namespace muster
