#include "cli/query/query_functions.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "scheduler/text/text.h"

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

template <class Holds>
QueryValue of_texts(const QueryArguments& of, Holds holds) {
  const auto* whole = text(of[0]);
  const auto* part = text(of[1]);
  if (whole == nullptr || part == nullptr) return nullptr;
  return holds(*whole, *part);
}

QueryValue contains(const QueryArguments& of) {
  if (of[0].is_array()) return std::find(of[0].begin(), of[0].end(), of[1]) != of[0].end();
  return of_texts(of, [](const auto& whole, const auto& part) { return mentions(whole, part); });
}

QueryValue starts_with(const QueryArguments& of) {
  return of_texts(of, [](const auto& whole, const auto& part) { return whole.starts_with(part); });
}

QueryValue ends_with(const QueryArguments& of) {
  return of_texts(of, [](const auto& whole, const auto& part) { return whole.ends_with(part); });
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

QueryValue itself(const QueryValue& value) {
  return value;
}

bool is_true(const QueryValue& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string() || value.is_structured()) return !value.empty() && value != "";
  return !value.is_null();
}

Query then(Query first, Query second) {
  return [=](const QueryValue& value) { return second(first(value)); };
}

Query field(std::string name) {
  return [name = std::move(name)](const QueryValue& value) {
    const auto found = value.find(name);
    return found == value.end() ? QueryValue() : *found;
  };
}

Query element(std::int64_t index) {
  return [index](const QueryValue& value) {
    const auto size = static_cast<std::int64_t>(value.size());
    const std::int64_t at = index < 0 ? index + size : index;
    if (!value.is_array() || at < 0 || at >= size) return QueryValue();
    return value[static_cast<std::size_t>(at)];
  };
}

Query each(Query list, Query part) {
  return [=](const QueryValue& value) {
    const QueryValue items = list(value);
    if (!items.is_array()) return QueryValue();
    QueryValue out = QueryValue::array();
    for (const QueryValue& item : items) {
      if (QueryValue one = part(item); !one.is_null()) out.push_back(std::move(one));
    }
    return out;
  };
}

QueryValue flattened(const QueryValue& value) {
  if (!value.is_array()) return nullptr;
  QueryValue out = QueryValue::array();
  for (const QueryValue& item : value) {
    if (item.is_array())
      out.insert(out.end(), item.begin(), item.end());
    else
      out.push_back(item);
  }
  return out;
}

Query fitting(Query condition) {
  return [condition](const QueryValue& value) {
    if (!value.is_array()) return QueryValue();
    QueryValue out = QueryValue::array();
    std::copy_if(value.begin(), value.end(), std::back_inserter(out),
                 [&](const QueryValue& item) { return is_true(condition(item)); });
    return out;
  };
}

Query slice(std::optional<std::int64_t> begin, std::optional<std::int64_t> end) {
  return [=](const QueryValue& value) {
    if (!value.is_array()) return QueryValue();
    const auto size = static_cast<std::int64_t>(value.size());
    const auto place = [size](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
    };
    const std::int64_t last = place(end.value_or(size));
    QueryValue out = QueryValue::array();
    for (std::int64_t at = place(begin.value_or(0)); at < last; ++at) {
      out.push_back(value[static_cast<std::size_t>(at)]);
    }
    return out;
  };
}

Query compared(const std::string& sign, Query left, Query right) {
  return [=](const QueryValue& value) -> QueryValue {
    const QueryValue a = left(value);
    const QueryValue b = right(value);
    if (sign == "==") return a == b;
    if (sign == "!=") return a != b;
    const bool ordered = (a.is_number() && b.is_number()) || (a.is_string() && b.is_string());
    if (!ordered) return nullptr;
    const bool less = sign[0] == '<' ? query_less(a, b) : query_less(b, a);
    return less || (sign.size() == 2 && a == b);
  };
}

Query call(QueryFunction function, std::vector<Query> parts) {
  return [=](const QueryValue& value) {
    std::vector<QueryValue> arguments;
    for (const Query& part : parts) arguments.push_back(part(value));
    return function(arguments);
  };
}

Query sorted_by(Query list, Query key) {
  return [=](const QueryValue& value) {
    QueryValue items = list(value);
    if (!items.is_array()) return QueryValue();
    std::stable_sort(items.begin(), items.end(), [&](const QueryValue& a, const QueryValue& b) {
      return query_less(key(a), key(b));
    });
    return items;
  };
}

}  // namespace muster
