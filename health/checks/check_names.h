// The ids of all checks, for readers of files that name them: without what a finding is, so that
// they may have findings of their own.
#pragma once

#include <string>
#include <vector>

namespace muster {

std::vector<std::string> names_of_checks();
// With those of the start gate that are no health checks.
std::vector<std::string> names_of_gate_checks();
// Those of them that a gate itself runs.
std::vector<std::string> names_of_checks_at_gates();

}  // namespace muster
