#include "health/compare/majority.h"

#include <algorithm>
#include <cmath>

#include "health/model/judged_check.h"

namespace muster {

namespace {

// What more than half of those say that say anything of the fact; nothing: no value has so many.
std::optional<std::string> majority_of(const std::map<std::string, Facts>& by_node,
                                       const std::string& fact) {
  std::map<std::string, std::size_t> counts;
  std::size_t told = 0;
  for (const auto& [node, facts] : by_node) {
    const auto found = facts.find(fact);
    if (found == facts.end()) continue;
    ++told;
    ++counts[found->second];
  }
  for (const auto& [value, count] : counts)
    if (count * 2 > told) return value;
  return std::nullopt;
}

}  // namespace

std::optional<double> median_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return values[middle - 1] / 2 + values[middle] / 2;  // halves first: the sum may overflow
}

std::map<std::string, HealthFinding> judge_majority(std::string_view check,
                                                    const std::map<std::string, Facts>& by_node) {
  std::map<std::string, std::optional<std::string>> usual;  // by fact
  for (const auto& [node, facts] : by_node)
    for (const auto& [fact, value] : facts)
      if (!usual.contains(fact)) usual[fact] = majority_of(by_node, fact);
  std::map<std::string, HealthFinding> findings;
  for (const auto& [node, facts] : by_node) {
    JudgedCheck judged(*find_check(check));
    for (const auto& [fact, value] : facts) {
      const auto& majority = usual.at(fact);
      const std::string said = fact + " " + value;
      if (!majority)
        judged.unknown(said + ": no version has the majority");
      else
        judged.require(value == *majority, said, fact + " " + *majority);
    }
    if (auto finding = judged.finding()) findings.emplace(node, *std::move(finding));
  }
  return findings;
}

}  // namespace muster
