// `search_space` and `early_termination` of a sweep: the table of distributions and policies with
// their keys.
#pragma once

#include <set>
#include <string>

#include "templates/yaml/value.h"

namespace muster {

// Checks every parameter; their names, for `${{search_space.x}}`.
std::set<std::string> read_search_space(const Value& value);

void read_early_termination(const Value& value);

}  // namespace muster
