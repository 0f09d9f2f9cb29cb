// What several say of one thing: the value of more than half of them, and the median. Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <ranges>
#include <vector>

namespace muster {

// What more than half of them say; nothing: no value has so many. Two against two is no majority.
template <class Values, class Value = std::ranges::range_value_t<Values>>
std::optional<Value> said_by_most(const Values& values) {
  std::map<Value, std::size_t> counts;
  std::size_t told = 0;
  for (const Value& value : values) {
    ++counts[value];
    ++told;
  }
  for (const auto& [value, count] : counts)
    if (count * 2 > told) return value;
  return std::nullopt;
}

// Of the finite values; the mean of the two middle ones when their count is even.
inline std::optional<double> median_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return values[middle - 1] / 2 + values[middle] / 2;  // halves first: the sum may overflow
}

}  // namespace muster
