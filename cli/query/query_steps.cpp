#include "cli/query/query_steps.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace muster {

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
