// `--query`: a part of a result, in the subset of JMESPath that people type:
//
//   name  "odd name"  a.b  a[0]  a[-1]  a.0    fields and elements
//   []  [*]  [1:3]  a.*  [?state == 'x']       lists: each element, a slice, values, those that fit
//   {name: a, n: b}  [a, b]                    an object, a list made of several parts
//   a || b   a && b   !a   == != < <= > >=     with `json`, 'text' and numbers as literals
//   a | b                                      b of the whole of a
//   length(x) keys values contains starts_with ends_with join sort reverse sort_by(x, &key)
//
// Beyond JMESPath: `a.0`, bare numbers as literals, and texts have an order. Pure.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scheduler/model/result.h"

namespace muster {

// From a result to its part; null where there is none.
using Query = std::function<nlohmann::ordered_json(const nlohmann::ordered_json&)>;

// The Error says at which character the text is no query.
Result<Query> parse_query(const std::string& text);

}  // namespace muster
