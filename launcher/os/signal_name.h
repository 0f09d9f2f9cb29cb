// Signals as people write them: "SIGTERM", "TERM", "15". Pure.
#pragma once

#include <optional>
#include <string>

namespace muster {

std::optional<int> signal_number(const std::string& name);

}  // namespace muster
