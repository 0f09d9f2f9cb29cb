// JSON of a tool's output as a tree, within limits on its size, depth and number of values: what a
// tool prints is not trusted. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

inline constexpr std::size_t json_text_max = 4 << 20;
inline constexpr int json_depth_max = 24;
inline constexpr std::size_t json_values_max = 200'000;

struct JsonNode;
using JsonList = std::vector<JsonNode>;
using JsonObject = std::vector<std::pair<std::string, JsonNode>>;  // no key twice

struct JsonNode {
  std::variant<std::nullptr_t, bool, double, std::string, JsonList, JsonObject> value;

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value); }
  // Null pointers: it is something else.
  const double* number() const { return std::get_if<double>(&value); }
  const std::string* text() const { return std::get_if<std::string>(&value); }
  const JsonList* list() const { return std::get_if<JsonList>(&value); }
  // The member of an object; nothing also when this is no object.
  const JsonNode* at(std::string_view key) const;
};

// The whole text, which is one value. Characters beyond ASCII may be told as '?'.
Result<JsonNode> read_json(std::string_view text);

}  // namespace muster
