#include "cli/health/slurm_node.h"

#include <array>
#include <optional>

namespace muster {

namespace {

std::string_view first_line(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\n')) text.remove_prefix(1);
  return text.substr(0, text.find('\n'));
}

// What follows ` KEY=`, to the end of the line.
std::optional<std::string_view> behind(std::string_view line, std::string_view key) {
  const std::string wanted = std::string(key) + "=";
  for (std::size_t at = line.find(wanted); at != line.npos; at = line.find(wanted, at + 1)) {
    if (at == 0 || line[at - 1] == ' ') return line.substr(at + wanted.size());
  }
  return std::nullopt;
}

std::optional<std::string_view> word_behind(std::string_view line, std::string_view key) {
  const auto rest = behind(line, key);
  return rest ? std::optional(rest->substr(0, rest->find(' '))) : std::nullopt;
}

// "IDLE+DRAIN", "DOWN*+DRAIN", "MIXED+DRAINING": one of the words, whatever mark is behind it.
bool is_drain_state(std::string_view state) {
  constexpr std::array<std::string_view, 3> drains{"DRAIN", "DRAINED", "DRAINING"};
  while (!state.empty()) {
    const std::size_t end = std::min(state.find('+'), state.size());
    std::string_view word = state.substr(0, end);
    state.remove_prefix(std::min(end + 1, state.size()));
    while (!word.empty() && (word.back() < 'A' || word.back() > 'Z')) word.remove_suffix(1);
    for (const std::string_view drain : drains) {
      if (word == drain) return true;
    }
  }
  return false;
}

// The text goes to the end of the line, or to the mark ` [user@time]` when more fields follow it.
std::string reason_of_line(std::string_view line) {
  const auto rest = behind(line, "Reason");
  if (!rest) return {};
  const std::size_t mark = rest->find(" [");
  const std::size_t end = mark == rest->npos ? rest->npos : rest->find(']', mark);
  const bool is_mark = end != rest->npos && rest->substr(mark, end - mark).find('@') != rest->npos;
  std::string_view reason = is_mark ? rest->substr(0, end + 1) : *rest;
  while (reason.ends_with(' ')) reason.remove_suffix(1);
  return std::string(reason);
}

}  // namespace

Result<SlurmNode> parse_slurm_node(std::string_view text, std::string_view name) {
  const std::string_view line = first_line(text);
  const auto shown = word_behind(line, "NodeName");
  const auto state = word_behind(line, "State");
  if (!shown || !state) return Error{"scontrol does not show node " + std::string(name)};
  if (*shown != name) {
    return Error{"scontrol shows node " + std::string(*shown) + " instead of " + std::string(name)};
  }
  return SlurmNode{std::string(name), is_drain_state(*state), reason_of_line(line)};
}

}  // namespace muster
