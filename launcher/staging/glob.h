// The wildcards of ignore files, compiled once and matched in linear time (no backtracking, so no
// pattern can hang a submission):
//   ?  one character   *  any run of characters   [a-z] [!a] [[:alpha:]]  one of a set   \x  x
// none of which match `/`, and between slashes or ends
//   **/  any number of directories   /**  everything below
// An unclosed set or a lone `\` at the end matches nothing at all. Bytes, not characters of a
// locale.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

class Glob {
 public:
  explicit Glob(std::string_view pattern);
  bool matches(std::string_view text) const;

 private:
  enum class Step : std::uint8_t { one, star, any_directories, rest };
  using ByteSet = std::bitset<256>;
  struct Token {
    Step step;
    ByteSet takes;
  };

  void compile(std::string_view pattern);
  std::size_t compile_stars(std::string_view pattern, std::size_t at);
  bool simulate(std::string_view text) const;
  void enter(std::vector<char>& states, std::size_t state) const;

  bool valid_ = true;
  // Most patterns are a plain name or `*.ext`; those need no simulation.
  bool is_literal_ = false;
  bool is_star_suffix_ = false;
  std::string text_;
  std::vector<Token> tokens_;
};

// The rules of one ignore file (`.amlignore`, `.gitignore`), which speak about paths below the
// directory that the file lies in. Pure; the walk over directories is source_tree.h.
//
// A rule per line: blank lines and `#` are comments, `!` keeps what an earlier rule ignored, a rule
// with a `/` before its end speaks of the path, without one of the name at any depth, a trailing
// `/` means directories only, `\` escapes. The last rule that matches decides.

class IgnoreRules {
 public:
  enum class Verdict { none, ignored, kept };

  explicit IgnoreRules(std::string_view text);

  // `path` is relative to the ignore file's directory. A link to a directory is no directory.
  Verdict judge(std::string_view path, bool is_directory) const;

 private:
  struct Rule {
    Glob glob;
    bool keeps = false;
    bool directories_only = false;
    bool whole_path = false;
  };
  void add_line(std::string_view line);

  std::vector<Rule> rules_;
};

}  // namespace muster
