#include "templates/nhc_line.h"

#include <algorithm>

#include "templates/yaml/reader.h"

namespace muster {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view white_space = " \t\r\v\f";
  const std::size_t begin = text.find_first_not_of(white_space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(white_space) - begin + 1);
}

bool is_text(std::string_view line) {
  for (std::size_t at = 0; at < line.size();) {
    const auto byte = static_cast<unsigned char>(line[at]);
    const std::size_t length = utf8_length(line.substr(at));
    if (length == 0 || (byte < 0x20 && byte != '\t') || byte == 0x7F) return false;
    at += length;
  }
  return true;
}

// Splits at white space; quotes keep it together.
class WordSplitter {
 public:
  explicit WordSplitter(std::string_view text) : text_(text) {}

  Result<std::vector<NhcWord>> split() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t') {
        end_word();
        ++at_;
      } else if (c == '#' && !in_word_) {
        break;
      } else if (std::string_view(";&|<>()").find(c) != std::string_view::npos) {
        return Error{"a shell command, which is not run"};
      } else if (!take(c)) {
        return Error{"a quote or bracket is not closed"};
      }
    }
    end_word();
    return std::move(words_);
  }

 private:
  bool take(char c) {
    in_word_ = true;
    if (c == '\'') return take_quoted('\'');
    if (c == '"') return take_quoted('"');
    if (c == '\\') {
      if (++at_ >= text_.size()) return false;
      word_.text += text_[at_++];
      return true;
    }
    if (c == '$' && text_.substr(at_).starts_with("$(")) return take_substitution();
    if (c == '$' || c == '`') word_.expands = true;
    word_.text += c;
    ++at_;
    return true;
  }

  bool take_quoted(char quote) {
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      const char c = text_[at_];
      if (quote == '"' && (c == '$' || c == '`')) word_.expands = true;
      if (quote == '"' && c == '\\' && at_ + 1 < text_.size()) ++at_;
      word_.text += text_[at_];
    }
    return at_++ < text_.size();
  }

  // `$(…)`: to the bracket that closes it.
  bool take_substitution() {
    word_.expands = true;
    int open = 0;
    for (; at_ < text_.size(); ++at_) {
      word_.text += text_[at_];
      if (text_[at_] == '(') ++open;
      if (text_[at_] == ')' && --open == 0) {
        ++at_;
        return true;
      }
    }
    return false;
  }

  void end_word() {
    if (in_word_) words_.push_back(std::move(word_));
    word_ = {};
    in_word_ = false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  NhcWord word_;
  bool in_word_ = false;
  std::vector<NhcWord> words_;
};

}  // namespace

Result<NhcLine> split_nhc_line(std::string_view text, int number) {
  NhcLine line;
  line.number = number;
  text = trimmed(text);
  if (text.empty() || text.starts_with('#')) return line;
  if (!is_text(text)) return Error{"not a line of text"};
  const std::size_t bars = text.find("||");
  if (bars == std::string_view::npos) return Error{"expected <target> || <check>"};
  line.target = std::string(trimmed(text.substr(0, bars)));
  if (line.target.empty()) return Error{"expected a target before '||'"};
  auto words = WordSplitter(trimmed(text.substr(bars + 2))).split();
  if (!words) return words.error();
  line.words = std::move(*words);
  if (line.words.empty()) return Error{"expected a check behind '||'"};
  return line;
}

}  // namespace muster
