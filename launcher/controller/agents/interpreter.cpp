#include "launcher/controller/agents/interpreter.h"

#include <algorithm>
#include <array>

namespace muster {

namespace {

constexpr auto known = std::to_array<std::string_view>(
    {"python", "pypy", "perl", "ruby", "julia", "Rscript", "node", "java", "lua", "bash", "zsh",
     "ksh", "torchrun", "deepspeed", "accelerate", "muster-train"});

// python3, python3.11: the name of a known interpreter and a version.
bool is_interpreter(std::string_view word) {
  return std::any_of(known.begin(), known.end(), [word](std::string_view name) {
    return word.starts_with(name) &&
           word.substr(name.size()).find_first_not_of("0123456789.") == std::string_view::npos;
  });
}

}  // namespace

std::vector<std::string> interpreters_of(std::string_view command) {
  const auto begin = command.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  const auto end = command.find_first_of(" \t\n;&|<>", begin);
  const std::string_view word = command.substr(begin, end - begin);
  if (!is_interpreter(word)) return {};
  return {std::string(word)};
}

}  // namespace muster
