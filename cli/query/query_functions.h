// The functions of `--query`. Pure; a call with values of the wrong type gives null.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

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

}  // namespace muster
