#include "runtime/communicator/given_options.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "scheduler/text/text.h"

namespace muster {

namespace {

// Of many ranks so many are named.
constexpr std::size_t most_names = 8;

using Given = std::map<std::string, std::string>;

Given parsed(std::string_view text) {
  Given given;
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    given.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return given;
}

std::string value_of(const Given& given, const std::string& name) {
  const auto found = given.find(name);
  return found == given.end() ? "unknown" : found->second;
}

std::string names_text(const std::vector<std::string>& names) {
  if (names.size() <= most_names) return joined(names);
  return joined(std::span(names).first(most_names)) + " and " +
         std::to_string(names.size() - most_names) + " more";
}

}  // namespace

std::string options_difference(const std::vector<GivenOptions>& all) {
  std::vector<Given> given;
  Given every;  // name of every option that anybody has
  for (const GivenOptions& one : all) {
    given.push_back(parsed(one.text));
    every.insert(given.back().begin(), given.back().end());
  }
  std::string sentence;
  std::string others;
  for (const auto& [name, ignored] : every) {
    // In the order of the first rank that has the value.
    std::vector<std::pair<std::string, std::vector<std::string>>> groups;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string value = value_of(given[i], name);
      auto group = std::ranges::find(groups, value, [](const auto& one) { return one.first; });
      if (group == groups.end()) group = groups.insert(group, {value, {}});
      group->second.push_back(all[i].name);
    }
    if (groups.size() < 2) continue;
    if (!sentence.empty()) {
      others += (others.empty() ? "--" : ", --") + name;
      continue;
    }
    sentence = "--" + name + " differs between ranks:";
    for (const auto& [value, names] : groups) {
      sentence += (sentence.ends_with(':') ? " " : "; ") + value + " on " + names_text(names);
    }
  }
  if (sentence.empty()) return sentence;
  if (!others.empty()) sentence += " (so does " + others + ")";
  return sentence + ": give all ranks the same options";
}

}  // namespace muster
