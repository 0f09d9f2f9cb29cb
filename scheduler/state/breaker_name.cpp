#include "scheduler/state/breaker_name.h"

#include "scheduler/state/lookup.h"

namespace muster {

namespace {

constexpr char before_target = '@';

}  // namespace

std::string breaker_name(std::string_view check, std::string_view target) {
  return std::string(check) + before_target + std::string(target);
}

std::string_view check_of_breaker(std::string_view name) {
  return name.substr(0, name.find(before_target));
}

bool names_breaker(std::string_view said, std::string_view name) {
  const bool has_target = name.find(before_target) != std::string_view::npos;
  return said == name || (has_target && check_of_breaker(name) == said);
}

std::set<std::string> targets_of(const State& state, const NodeId& node) {
  std::set<std::string> names;
  for (const auto& [id, job] : state.jobs) {
    if (has_node(job.target, node)) names.insert(job.target.name);
  }
  return names;
}

bool is_breaker_of(std::string_view name, const std::set<std::string>& targets) {
  const std::size_t at = name.find(before_target);
  if (at == std::string_view::npos) return true;
  const std::string target(name.substr(at + 1));
  return targets.empty() ? target.empty() : targets.contains(target);
}

}  // namespace muster
