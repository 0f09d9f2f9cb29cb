#include "health/compare/majority.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "health/model/judged_check.h"

namespace muster {

namespace {

std::map<std::string, std::string> values_of(const std::map<std::string, Facts>& by_node,
                                             const std::string& fact) {
  std::map<std::string, std::string> values;
  for (const auto& [node, facts] : by_node) {
    const auto found = facts.find(fact);
    if (found != facts.end()) values.emplace(node, found->second);
  }
  return values;
}

void compare(std::map<std::string, JudgedCheck>& checks, const std::string& fact,
             const std::map<std::string, std::string>& values) {
  const auto majority = majority_of(values);
  for (const auto& [node, value] : values) {
    JudgedCheck& judged = checks.at(node);
    const std::string said = fact + " " + value;
    if (!majority) {
      judged.unknown(said + ": no version has the majority");
    } else if (value != majority->value) {
      judged.fail(said, fact + " " + majority->value);
    } else {
      judged.pass(said);
    }
  }
}

}  // namespace

std::optional<Majority> majority_of(const std::map<std::string, std::string>& by_node) {
  std::map<std::string_view, std::size_t> counts;
  for (const auto& [node, value] : by_node) ++counts[value];
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
  if (most == counts.end() || most->second * 2 <= by_node.size()) return std::nullopt;
  Majority majority{std::string(most->first), {}};
  for (const auto& [node, value] : by_node) {
    if (value != majority.value) majority.differing.push_back(node);
  }
  return majority;
}

std::optional<double> median_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return values[middle - 1] / 2 + values[middle] / 2;  // halves first: the sum may overflow
}

std::vector<std::string> below_median(const std::map<std::string, double>& by_node,
                                      double percent) {
  std::vector<double> values;
  for (const auto& [node, value] : by_node) {
    if (std::isfinite(value)) values.push_back(value);
  }
  if (values.size() < median_nodes_min) return {};
  const double least = *median_of(values) * (1 - percent / 100);
  std::vector<std::string> nodes;
  for (const auto& [node, value] : by_node) {
    if (std::isfinite(value) && value < least) nodes.push_back(node);
  }
  return nodes;
}

std::map<std::string, HealthFinding> judge_majority(std::string_view check,
                                                    const std::map<std::string, Facts>& by_node) {
  std::map<std::string, JudgedCheck> checks;
  std::set<std::string> told;
  for (const auto& [node, facts] : by_node) {
    checks.emplace(node, JudgedCheck(*find_check(check)));
    for (const auto& [fact, value] : facts) told.insert(fact);
  }
  for (const std::string& fact : told) compare(checks, fact, values_of(by_node, fact));
  std::map<std::string, HealthFinding> findings;
  for (const auto& [node, judged] : checks) {
    if (auto finding = judged.finding()) findings.emplace(node, *std::move(finding));
  }
  return findings;
}

}  // namespace muster
