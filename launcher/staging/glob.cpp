#include "launcher/staging/glob.h"

#include <algorithm>
#include <cwctype>

#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t no_set = static_cast<std::size_t>(-1);

unsigned char byte(char c) {
  return static_cast<unsigned char>(c);
}

bool add_class(std::string_view name, std::bitset<256>& set) {
  const std::wctype_t kind = std::wctype(std::string(name).c_str());
  for (wint_t c = 0; c < 128; ++c) {
    if (std::iswctype(c, kind) != 0) set.set(c);
  }
  return kind != 0;
}

// Every character but the slash.
std::bitset<256> in_component() {
  return std::bitset<256>{}.set().reset(byte('/'));
}

// The name in a leading `[:name:]`, empty when there is none.
std::string_view class_name(std::string_view text) {
  if (!text.starts_with("[:")) return {};
  const std::size_t end = text.find(']', 2);
  if (end == std::string_view::npos || end < 4 || text[end - 1] != ':') return {};
  return text.substr(2, end - 3);
}

// The member of a set at `at`, which may be escaped; moves past it. False: the pattern ends.
bool read_member(std::string_view pattern, std::size_t& at, unsigned char& member) {
  if (pattern[at] == '\\') ++at;
  if (at >= pattern.size()) return false;
  member = byte(pattern[at++]);
  return true;
}

// The set that begins after `[` at `at`, into `set`; the position after its `]`, or no_set.
std::size_t parse_set(std::string_view pattern, std::size_t at, std::bitset<256>& set) {
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  for (bool first = true; at < pattern.size() && (first || pattern[at] != ']'); first = false) {
    if (const std::string_view name = class_name(pattern.substr(at)); !name.empty()) {
      if (!add_class(name, set)) return no_set;
      at += name.size() + 4;
      continue;
    }
    unsigned char low = 0;
    if (!read_member(pattern, at, low)) return no_set;
    unsigned char high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      ++at;
      if (!read_member(pattern, at, high)) return no_set;
    }
    for (std::size_t c = low; c <= high; ++c) set.set(c);
  }
  if (at >= pattern.size()) return no_set;
  if (negated) set.flip();
  set.reset(byte('/'));
  return at + 1;
}

// Spaces at the end do not count unless the first of them is escaped.
std::string_view without_trailing_spaces(std::string_view line) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == ' ') continue;
    if (line[i] == '\\' && i + 1 < line.size()) ++i;
    end = i + 1;
  }
  return line.substr(0, end);
}

}  // namespace

Glob::Glob(std::string_view pattern) {
  if (pattern.find_first_of("*?[\\") == std::string_view::npos) {
    is_literal_ = true;
    text_ = pattern;
  } else if (pattern.front() == '*' &&
             pattern.find_first_of("*?[\\/", 1) == std::string_view::npos) {
    is_star_suffix_ = true;
    text_ = pattern.substr(1);
  } else {
    compile(pattern);
  }
}

void Glob::compile(std::string_view pattern) {
  for (std::size_t at = 0; valid_ && at < pattern.size();) {
    const char c = pattern[at];
    if (c == '*') {
      at = compile_stars(pattern, at);
      continue;
    }
    Token token{Step::one, {}};
    if (c == '[') {
      at = parse_set(pattern, at + 1, token.takes);
      valid_ = at != no_set;
    } else if (c == '?') {
      token.takes = in_component();
      ++at;
    } else {
      if (c == '\\') ++at;
      valid_ = at < pattern.size();
      if (valid_) token.takes.set(byte(pattern[at]));
      ++at;
    }
    tokens_.push_back(token);
  }
}

std::size_t Glob::compile_stars(std::string_view pattern, std::size_t at) {
  const std::size_t after = std::min(pattern.find_first_not_of('*', at), pattern.size());
  const bool begins_component = at == 0 || pattern[at - 1] == '/';
  if (after - at >= 2 && begins_component && after == pattern.size()) {
    tokens_.push_back({Step::rest, ByteSet{}.set()});
    return after;
  }
  if (after - at >= 2 && begins_component && pattern[after] == '/') {
    tokens_.push_back({Step::any_directories, ByteSet{}.set()});
    return after + 1;
  }
  tokens_.push_back({Step::star, in_component()});
  return after;
}

bool Glob::matches(std::string_view text) const {
  if (is_literal_) return text == text_;
  if (is_star_suffix_) {
    return text.ends_with(text_) &&
           text.substr(0, text.size() - text_.size()).find('/') == std::string_view::npos;
  }
  return valid_ && simulate(text);
}

// Makes a state active, and those that are reached from it without taking a character.
void Glob::enter(std::vector<char>& states, std::size_t state) const {
  for (; !states[state]; ++state) {
    states[state] = 1;
    if (state == tokens_.size()) return;
    if (tokens_[state].step == Step::one) return;
  }
}

bool Glob::simulate(std::string_view text) const {
  std::vector<char> now(tokens_.size() + 1, 0);
  std::vector<char> next(now.size(), 0);
  enter(now, 0);
  for (const char c : text) {
    std::fill(next.begin(), next.end(), 0);
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (!now[i] || !tokens_[i].takes.test(byte(c))) continue;
      switch (tokens_[i].step) {
        case Step::any_directories:
          // Ends only after a slash. Its own state is entered by the one before, thus earlier in
          // this loop, with what follows from that.
          if (c == '/') enter(next, i + 1);
          next[i] = 1;
          break;
        case Step::star:
        case Step::rest:
          enter(next, i);
          break;
        case Step::one:
          enter(next, i + 1);
      }
    }
    std::swap(now, next);
  }
  return now[tokens_.size()] != 0;
}

IgnoreRules::IgnoreRules(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) add_line(take_until(text, '\n'));
}

void IgnoreRules::add_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  line = without_trailing_spaces(line);
  if (line.empty() || line.front() == '#') return;
  const bool keeps = line.front() == '!';
  if (keeps) line.remove_prefix(1);
  const bool directories_only = line.ends_with('/');
  if (directories_only) line.remove_suffix(1);
  const bool whole_path = line.find('/') != std::string_view::npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  if (line.empty()) return;
  rules_.push_back({Glob(line), keeps, directories_only, whole_path});
}

IgnoreRules::Verdict IgnoreRules::judge(std::string_view path, bool is_directory) const {
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->directories_only && !is_directory) continue;
    if (!rule->glob.matches(rule->whole_path ? path : name)) continue;
    return rule->keeps ? Verdict::kept : Verdict::ignored;
  }
  return Verdict::none;
}

}  // namespace muster
