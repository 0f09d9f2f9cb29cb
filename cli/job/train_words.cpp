#include "cli/job/train_words.h"

#include <algorithm>
#include <string_view>

namespace muster {

namespace {

constexpr std::string_view program = "muster-train";

// One shell word, or the end of a simple command.
struct ShellWord {
  std::string text;
  bool ends_command = false;
};

bool is_operator(char c) {
  return c == ';' || c == '&' || c == '|' || c == '\n' || c == '(' || c == ')' || c == '<' ||
         c == '>';
}

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

// Quotes and backslashes as POSIX has them; a line that ends within quotes ends the word.
std::vector<ShellWord> shell_words(std::string_view line) {
  std::vector<ShellWord> words;
  bool is_open = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const auto put = [&](char letter) {
      if (!is_open) words.emplace_back();
      is_open = true;
      words.back().text += letter;
    };
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (quote == '"' && c == '\\' && i + 1 < line.size()) {
        put(line[++i]);
      } else {
        put(c);
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      if (!is_open) words.emplace_back();
      is_open = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      if (line[++i] != '\n') put(line[i]);
    } else if (is_operator(c)) {
      const bool redirects = (c == '<' || c == '>') && is_open && is_number(words.back().text);
      if (redirects) words.pop_back();  // "2>"
      is_open = false;
      words.push_back({"", true});
    } else if (c == ' ' || c == '\t') {
      is_open = false;
    } else {
      put(c);
    }
  }
  return words;
}

// "\x01inputs.x\x02" stands for the path of input x on the node.
std::string with_path_of_input(const JobSpec& spec, const std::string& word) {
  constexpr std::string_view begin = "\x01inputs.";
  if (!word.starts_with(begin) || !word.ends_with('\x02')) return word;
  const auto input = spec.inputs.find(word.substr(begin.size(), word.size() - begin.size() - 1));
  return input == spec.inputs.end() ? word : input->second.path;
}

bool is_program(const JobSpec& spec, const std::string& word) {
  const std::string path = with_path_of_input(spec, word);
  const std::size_t slash = path.rfind('/');
  return std::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1) == program;
}

}  // namespace

std::optional<std::vector<std::string>> train_words(const JobSpec& spec) {
  const std::vector<ShellWord> words = shell_words(spec.command);
  auto at = std::ranges::find_if(words, [&](const ShellWord& word) {
    return !word.ends_command && is_program(spec, word.text);
  });
  if (at == words.end()) return std::nullopt;
  std::vector<std::string> options;
  for (++at; at != words.end() && !at->ends_command; ++at) options.push_back(at->text);
  if (!options.empty() && !options.front().starts_with('-')) return std::nullopt;
  return options;
}

}  // namespace muster
