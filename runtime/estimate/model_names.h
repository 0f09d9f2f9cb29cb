// Models that have a name, and their shapes. Context is left to the run. Plain data.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/model/gpt.h"

namespace muster {

// With vocabularies as they are trained: padded for matrix products. Letter case does not matter.
std::optional<GptShape> named_shape(std::string_view name);

// All names, for help and complaints.
std::string names_of_shapes();

}  // namespace muster
