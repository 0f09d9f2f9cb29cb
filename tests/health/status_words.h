// Short names of what a check came to, for the tables of tests.
#pragma once

#include "health/model/finding.h"

namespace muster::status_words {

inline constexpr CheckStatus pass = CheckStatus::pass;
inline constexpr CheckStatus fail = CheckStatus::fail;
inline constexpr CheckStatus unsure = CheckStatus::unknown;

}  // namespace muster::status_words
