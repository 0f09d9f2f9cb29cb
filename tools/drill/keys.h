// The keys of one step of a drill, read from the tree: its trigger and its action. Pure; for
// `read_drill`.
#pragma once

#include <optional>
#include <string_view>

#include "templates/yaml/value.h"
#include "tools/drill/file.h"

namespace muster {

// `20`, `>= 20`
std::optional<NumberTest> parse_number_test(std::string_view text);

// `step >= 20`, `state == Running`, `checkpoint`
std::optional<DrillCondition> read_condition(const Value& value);
// `3s`, `1s..4s`; absent: none.
DrillPause read_pause(const Value& value);
// The one key of the map that names an action; an error at `step` when there is none or several.
std::optional<DrillAction> read_action(MapReader& map, const Value& step);

}  // namespace muster
