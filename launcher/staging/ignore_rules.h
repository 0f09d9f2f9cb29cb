// The rules of one ignore file (`.amlignore`, `.gitignore`), which speak about paths below the
// directory that the file lies in. Pure; the walk over directories is source_tree.h.
//
// A rule per line: blank lines and `#` are comments, `!` keeps what an earlier rule ignored, a rule
// with a `/` before its end speaks of the path, without one of the name at any depth, a trailing
// `/` means directories only, `\` escapes. The last rule that matches decides.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/staging/glob.h"

namespace muster {

class IgnoreRules {
 public:
  enum class Verdict { none, ignored, kept };

  IgnoreRules() = default;
  explicit IgnoreRules(std::string_view text);

  // `path` is relative to the ignore file's directory. A link to a directory is no directory.
  Verdict judge(std::string_view path, bool is_directory) const;
  bool is_empty() const { return rules_.empty(); }

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
