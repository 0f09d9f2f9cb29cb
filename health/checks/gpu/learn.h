// What all GPUs of a node that is known to be good say alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "health/model/baseline.h"

namespace muster {

// Whether the driver's library answered all that it was asked.
bool has_answer(const BaselineNode& node);
// "gpu0"…; none without an answer.
std::vector<std::string> answering_gpus(const BaselineNode& node);

// The reading `key` of each GPU. Where they differ, or one says nothing, it is left out and said
// under the profile's `fact`.
std::optional<std::string> same_text(BaselineNode& node, const std::string& key, const char* fact);
std::optional<int> same_number(BaselineNode& node, const std::string& key, const char* fact);
// Nothing also of a mode that the GPUs do not have: their checks leave it out.
std::optional<bool> same_flag(BaselineNode& node, const std::string& key, const char* fact);

}  // namespace muster
