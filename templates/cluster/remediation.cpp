#include "templates/cluster/remediation.h"

#include <algorithm>
#include <optional>

#include "scheduler/model/remediation.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t most_words = 100;
constexpr std::size_t longest_word = 4096;

std::vector<std::string> words_of(const Value& value) {
  if (value.is_list()) return value.texts();
  const auto line = value.text();
  if (!line) return {};
  auto split = command_words(*line);
  if (split) return std::move(*split);
  value.error(split.error().message);
  return {};
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

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

// Outside quotes; braces are placeholders.
bool is_of_shell(char c) {
  return std::string_view("|&;<>()$`*?[]#~!").find(c) != std::string_view::npos;
}

class Splitter {
 public:
  explicit Splitter(std::string_view line) : line_(line) {}

  Result<std::vector<std::string>> split() {
    while (at_ < line_.size() && error_.empty()) step(line_[at_++]);
    if (quote_ && error_.empty()) error_ = std::string("the quote ") + *quote_ + " is not closed";
    if (!error_.empty()) return Error{error_};
    end_word();
    return words_;
  }

 private:
  void step(char c) {
    if (c == '\\' && quote_ != '\'') {
      if (at_ < line_.size()) return add(line_[at_++]);
      error_ = "nothing follows the last \\";
      return;
    }
    if (quote_) {
      if (c == *quote_) return quote_.reset();
      // Inside double quotes a shell still puts values in.
      if (*quote_ == '"' && (c == '$' || c == '`')) return refuse(c);
      return add(c);
    }
    if (is_space(c)) return end_word();
    if (c == '\'' || c == '"') {
      quote_ = c;
      is_word_ = true;
      return;
    }
    if (is_of_shell(c)) return refuse(c);
    add(c);
  }

  void refuse(char c) {
    error_ = std::string("no shell reads this: ") + c +
             " would be an argument; quote it, or put the command into a script";
  }

  void add(char c) {
    word_ += c;
    is_word_ = true;
  }

  void end_word() {
    if (is_word_) words_.push_back(word_);
    word_.clear();
    is_word_ = false;
  }

  std::string_view line_;
  std::size_t at_ = 0;
  std::optional<char> quote_;
  bool is_word_ = false;
  std::string word_;
  std::string error_;
  std::vector<std::string> words_;
};

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
    return mentions(word, "{gpu}") || mentions(word, "{device}");
  };
  for (const auto* reboot : {&commands.reboot, &commands.reboot_from_here}) {
    if (std::ranges::any_of(*reboot, needs_gpu)) {
      value.warning(
          "a reboot is of a node: faults of no GPU or device will not be answered with "
          "this command");
    }
  }
  return commands;
}

Result<std::vector<std::string>> command_words(std::string_view line) {
  return Splitter(line).split();
}

}  // namespace muster
