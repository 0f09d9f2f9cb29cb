// Host names in brackets: `n[01-16],m3` is n01 … n16 and m3. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// A hostile range must not fill the memory; no cluster of ours has more nodes.
constexpr int max_hosts = 65536;

// Commas separate names; inside brackets they separate numbers and ranges. Zero padding is kept,
// and several brackets in one name multiply. Order is kept, duplicates are an error.
Result<std::vector<std::string>> expand_hosts(std::string_view text);

}  // namespace muster
