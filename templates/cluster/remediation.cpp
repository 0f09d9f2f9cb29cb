#include "templates/cluster/remediation.h"

#include <algorithm>

#include "scheduler/model/remediation.h"
#include "templates/yaml/command_words.h"

namespace muster {
namespace {

constexpr std::size_t most_words = 100;
constexpr std::size_t longest_word = 4096;

std::vector<std::string> words_of(const Value& value) {
  std::vector<std::string> words;
  if (value.is_list()) {
    for (const Value& item : value.list()) {
      if (const auto word = item.text()) words.push_back(*word);
    }
    return words;
  }
  const auto line = value.text();
  if (!line) return words;
  auto split = command_words(*line);
  if (!split) {
    value.error(split.error().message);
    return words;
  }
  return std::move(*split);
}

void check_word(const Value& value, const std::string& word, bool is_program) {
  if (word.size() > longest_word || word.find('\0') != std::string::npos) {
    value.error("expected words of at most " + std::to_string(longest_word) + " letters");
  }
  if (const auto unknown = unknown_placeholder(word)) {
    value.error("there is no placeholder {" + *unknown + "}",
                value.suggest(*unknown, remedy_placeholders));
  } else if (is_program && word.find('{') != std::string::npos) {
    value.error("the program itself cannot be a placeholder");
  }
}

std::vector<std::string> read_command(const Value& value) {
  if (!value.present()) {
    if (value.given()) value.error("expected a command");
    return {};
  }
  std::vector<std::string> words = words_of(value);
  if (words.empty() || words.front().empty()) {
    value.error("expected a command");
    return {};
  }
  if (words.size() > most_words) {
    value.error("expected at most " + std::to_string(most_words) + " words");
    return {};
  }
  for (std::size_t i = 0; i < words.size(); ++i) check_word(value, words[i], i == 0);
  return words;
}

}  // namespace

RemedyCommands read_remedies(const Value& value) {
  RemedyCommands commands;
  if (!value.given()) return commands;
  MapReader map(value);
  commands.reset = read_command(map.take("reset"));
  commands.reboot = read_command(map.take("reboot"));
  commands.reboot_from_here = read_command(map.take("reboot_from_here"));
  map.finish();
  const auto needs_gpu = [](const std::string& word) {
    return word.find("{gpu}") != std::string::npos || word.find("{device}") != std::string::npos;
  };
  for (const auto* reboot : {&commands.reboot, &commands.reboot_from_here}) {
    if (std::any_of(reboot->begin(), reboot->end(), needs_gpu)) {
      value.warning(
          "a reboot is of a node: faults of no GPU or device will not be answered with "
          "this command");
    }
  }
  return commands;
}

}  // namespace muster
