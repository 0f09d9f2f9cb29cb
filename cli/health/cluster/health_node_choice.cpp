#include "cli/health/cluster/health_node_choice.h"

#include <algorithm>
#include <set>

#include "health/name_pattern.h"
#include "templates/spelling.h"
#include "templates/yaml/host_list.h"

namespace muster {

namespace {

std::string or_else(const std::string& meant, const std::string& otherwise) {
  return meant.empty() ? otherwise : meant;
}

std::vector<std::string> names_in(const std::vector<ComputeTarget>& targets) {
  std::vector<std::string> names;
  for (const ComputeTarget& target : targets) {
    for (const NodeAddress& node : target.nodes) names.push_back(node.id.value);
  }
  return names;
}

Error unknown_node(const std::string& name, const std::vector<std::string>& names) {
  // `muster health lern`: where a verb may stand as well.
  const std::vector<std::string> verbs{"run",   "active", "checks",   "fabric",    "learn",
                                       "pairs", "record", "profiles", "import-nhc"};
  const std::string verb = nearest(name, verbs);
  const std::string meant = did_you_mean(name, names);
  const std::string other =
      verb.empty() ? "`muster nodes` lists them" : "did you mean `muster health " + verb + "`?";
  return Error{"there is no node " + quoted_text(name) + "; " + or_else(meant, other)};
}

Status add_meant(const std::string& word, const std::vector<std::string>& names,
                 std::set<std::string>& meant) {
  if (word.find('*') != word.npos) {
    const std::size_t before = meant.size();
    bool fits = false;
    for (const std::string& name : names) {
      if (!fits_pattern(word, name)) continue;
      fits = true;
      meant.insert(name);
    }
    if (!fits && meant.size() == before) return unknown_node(word, names);
    return Done{};
  }
  const auto expanded = expand_hosts(word);
  if (!expanded) return expanded.error();
  for (const std::string& name : *expanded) {
    if (std::ranges::find(names, name) == names.end()) return unknown_node(name, names);
    meant.insert(name);
  }
  return Done{};
}

Result<std::vector<ComputeTarget>> candidates(const std::vector<ComputeTarget>& targets,
                                              const std::string& wanted) {
  if (wanted.empty()) return targets;
  std::vector<std::string> names;
  for (const ComputeTarget& target : targets) {
    if (target.name == wanted) return std::vector{target};
    names.push_back(target.name);
  }
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "there are " : ", ") + name;
  return Error{"there is no compute target " + quoted_text(wanted) + "; " +
               or_else(did_you_mean(wanted, names), all)};
}

}  // namespace

Result<std::vector<ComputeTarget>> chosen_nodes(const std::vector<ComputeTarget>& targets,
                                                const std::string& target,
                                                const std::vector<std::string>& words) {
  auto from = candidates(targets, target);
  if (!from) return from.error();
  const std::vector<std::string> names = names_in(*from);
  std::set<std::string> meant;
  for (const std::string& word : words) {
    if (auto added = add_meant(word, names, meant); !added) return added.error();
  }
  std::set<std::string> taken;
  for (ComputeTarget& each : *from) {
    std::erase_if(each.nodes, [&](const NodeAddress& node) {
      const bool is_meant = words.empty() || meant.contains(node.id.value);
      return !is_meant || !taken.insert(node.id.value).second;
    });
  }
  std::erase_if(*from, [](const ComputeTarget& each) { return each.nodes.empty(); });
  if (from->empty()) return Error{"compute target " + quoted_text(target) + " has no nodes"};
  return from;
}

}  // namespace muster
