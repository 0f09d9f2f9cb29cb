#include "launcher/wire/json_fields.h"

namespace muster {

namespace {

std::optional<std::string> below(const std::string& name, const Json& given, const Json& known) {
  const auto found = unknown_field(given, known);
  if (!found) return std::nullopt;
  return name + "." + *found;
}

}  // namespace

std::optional<std::string> unknown_field(const Json& given, const Json& known) {
  if (given.is_object() && known.is_object()) {
    for (const auto& [name, value] : given.items()) {
      if (value.is_null()) continue;
      const auto same = known.find(name);
      if (same == known.end()) return name;
      if (auto found = below(name, value, *same)) return found;
    }
  } else if (given.is_array() && known.is_array()) {
    for (std::size_t i = 0; i < given.size() && i < known.size(); ++i) {
      if (auto found = below(std::to_string(i), given[i], known[i])) return found;
    }
  }
  return std::nullopt;
}

}  // namespace muster
