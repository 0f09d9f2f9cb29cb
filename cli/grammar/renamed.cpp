#include "cli/grammar/renamed.h"

#include <string_view>

namespace muster {
namespace {

struct Renamed {
  std::string_view verb;  // how the command line begins
  std::string_view old;
  std::string_view now;
};

constexpr Renamed renamed[] = {
    {"health", "active", "benchmark"},
    {"health", "--beside-ranks", "--during-job"},
    {"health", "--forget", "--no-state"},
    {"health", "--profile-alone", "--no-base-profile"},
    {"health", "--quick", "--once"},
    {"health", "--golden", "--baseline"},
    {"health", "--save-golden", "--save-baseline"},
    {"health", "--leaves", "--topology"},
    {"nodes", "--rearm", "--reset-breaker"},
};

// `--old` or `--old=value`; of a verb below another one, which comes second, only the whole word.
bool is_old(const Renamed& name, std::string_view word, std::size_t place) {
  if (!name.old.starts_with("--")) return place == 1 && word == name.old;
  return word.starts_with(name.old) &&
         (word.size() == name.old.size() || word[name.old.size()] == '=');
}

}  // namespace

std::vector<std::string> with_present_names(std::vector<std::string> words) {
  for (std::size_t place = 1; place < words.size() && words[place] != "--"; ++place) {
    for (const Renamed& name : renamed) {
      if (words.front() != name.verb || !is_old(name, words[place], place)) continue;
      words[place].replace(0, name.old.size(), name.now);
      break;
    }
  }
  return words;
}

}  // namespace muster
