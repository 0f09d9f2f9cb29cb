#include "templates/yaml/command_words.h"

#include <optional>

namespace muster {
namespace {

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
    if (c == '\\' && quote_ != '\'') return take_escaped();
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

  void take_escaped() {
    if (at_ == line_.size()) {
      error_ = "nothing follows the last \\";
      return;
    }
    add(line_[at_++]);
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

Result<std::vector<std::string>> command_words(std::string_view line) {
  return Splitter(line).split();
}

}  // namespace muster
