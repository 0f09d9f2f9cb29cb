#include "cli/query/query_functions.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace muster {

namespace {

using QueryArguments = std::vector<QueryValue>;

const std::string* text(const QueryValue& value) {
  return value.get_ptr<const std::string*>();
}

// Characters, not bytes.
std::size_t text_length(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

QueryValue length(const QueryArguments& of) {
  if (const auto* characters = text(of[0])) return text_length(*characters);
  return of[0].is_structured() ? QueryValue(of[0].size()) : QueryValue();
}

QueryValue keys(const QueryArguments& of) {
  if (!of[0].is_object()) return nullptr;
  QueryValue out = QueryValue::array();
  for (const auto& item : of[0].items()) out.push_back(item.key());
  return out;
}

QueryValue values(const QueryArguments& of) {
  if (!of[0].is_object()) return nullptr;
  QueryValue out = QueryValue::array();
  for (const QueryValue& value : of[0]) out.push_back(value);
  return out;
}

QueryValue contains(const QueryArguments& of) {
  if (of[0].is_array()) return std::find(of[0].begin(), of[0].end(), of[1]) != of[0].end();
  const auto* whole = text(of[0]);
  const auto* part = text(of[1]);
  if (whole == nullptr || part == nullptr) return nullptr;
  return whole->find(*part) != whole->npos;
}

QueryValue starts_with(const QueryArguments& of) {
  const auto* whole = text(of[0]);
  const auto* part = text(of[1]);
  if (whole == nullptr || part == nullptr) return nullptr;
  return whole->starts_with(*part);
}

QueryValue ends_with(const QueryArguments& of) {
  const auto* whole = text(of[0]);
  const auto* part = text(of[1]);
  if (whole == nullptr || part == nullptr) return nullptr;
  return whole->ends_with(*part);
}

QueryValue join(const QueryArguments& of) {
  const auto* glue = text(of[0]);
  if (glue == nullptr || !of[1].is_array()) return nullptr;
  std::string out;
  for (const QueryValue& item : of[1]) {
    if (!item.is_string()) return nullptr;
    out += (&item == &of[1].front() ? "" : *glue) + *text(item);
  }
  return out;
}

QueryValue sort(const QueryArguments& of) {
  if (!of[0].is_array()) return nullptr;
  QueryValue out = of[0];
  std::stable_sort(out.begin(), out.end(), query_less);
  return out;
}

QueryValue reverse(const QueryArguments& of) {
  if (!of[0].is_array()) return nullptr;
  QueryValue out = of[0];
  std::reverse(out.begin(), out.end());
  return out;
}

constexpr NamedQueryFunction functions[] = {
    {"length", 1, length},
    {"keys", 1, keys},
    {"values", 1, values},
    {"contains", 2, contains},
    {"starts_with", 2, starts_with},
    {"ends_with", 2, ends_with},
    {"join", 2, join},
    {"sort", 1, sort},
    {"reverse", 1, reverse},
};

}  // namespace

const NamedQueryFunction* query_function(const std::string& name) {
  const auto* found = std::find_if(std::begin(functions), std::end(functions),
                                   [&](const auto& one) { return one.name == name; });
  return found == std::end(functions) ? nullptr : found;
}

// Values of other kinds, null among them, come first: all equal, so that the order is a strict one.
bool query_less(const QueryValue& a, const QueryValue& b) {
  const auto kind = [](const QueryValue& value) {
    return value.is_number() ? 1 : value.is_string() ? 2 : 0;
  };
  if (kind(a) != kind(b)) return kind(a) < kind(b);
  return kind(a) != 0 && a < b;
}

}  // namespace muster
