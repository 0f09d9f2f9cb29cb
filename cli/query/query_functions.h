// The functions and steps of `--query`. Pure; a call with values of the wrong type gives null.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/query/query.h"

namespace muster {

using QueryValue = nlohmann::ordered_json;
using QueryFunction = QueryValue (*)(const std::vector<QueryValue>& arguments);

struct NamedQueryFunction {
  const char* name;
  std::size_t arguments;
  QueryFunction call;
};

// Null when there is none of that name.
const NamedQueryFunction* query_function(const std::string& name);

// Whether `a` comes before `b`: among numbers or texts; false for anything else.
bool query_less(const QueryValue& a, const QueryValue& b);

// The steps that a query is made of: each a function from a value to its part, null where there is
// none.

QueryValue itself(const QueryValue& value);
bool is_true(const QueryValue& value);

Query then(Query first, Query second);
Query field(std::string name);
Query element(std::int64_t index);  // negative: from the end
// `part` of each element of the list; elements without one are left out.
Query each(Query list, Query part);
QueryValue flattened(const QueryValue& value);  // by one level
Query fitting(Query condition);                 // the elements for which it is true
Query slice(std::optional<std::int64_t> begin, std::optional<std::int64_t> end);
Query compared(const std::string& sign, Query left, Query right);
Query call(QueryFunction function, std::vector<Query> parts);
Query sorted_by(Query list, Query key);

}  // namespace muster
