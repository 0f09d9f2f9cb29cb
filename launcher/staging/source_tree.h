// What a snapshot would hold, without reading any file's content: entries in a fixed order, sizes
// and warnings. `plan` shows it; take_snapshot adds the hashes.
//
// Ignore files are honoured and `.git` is always left out; ignored directories are not entered.
// Links are kept; one that leads out of the tree is replaced by a copy of what it points to
// (warning), a dangling one stays as it is. Sockets, pipes and devices are left out (warning).
#pragma once

#include <sys/stat.h>

#include <bitset>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

// A Tree is one message: more entries than this would not fit into a frame.
inline constexpr std::size_t source_tree_limit_entries = 400'000;

// What tells an unchanged file from a changed one.
struct FileFacts {
  std::int64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;  // inode change time
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  bool operator==(const FileFacts&) const = default;
};

inline FileFacts facts_of(const struct stat& facts) {
  constexpr std::int64_t second_ns = 1'000'000'000;
  return {facts.st_size, facts.st_mtim.tv_sec * second_ns + facts.st_mtim.tv_nsec,
          facts.st_ctim.tv_sec * second_ns + facts.st_ctim.tv_nsec, facts.st_ino, facts.st_dev};
}

struct SourceEntry {
  TreeEntry entry;   // `hash` is empty
  std::string from;  // absolute path of the content; differs from the entry's for a copied link
  FileFacts facts;
};

struct SourceTree {
  std::vector<SourceEntry> entries;  // sorted by path component; a directory precedes its content
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::vector<std::string> warnings;
};

Result<SourceTree> walk_source(const std::filesystem::path& source, bool honour_ignore_files);

// The wildcards of ignore files, compiled once and matched in linear time (no backtracking, so no
// pattern can hang a submission):
//   ?  one character   *  any run of characters   [a-z] [!a] [[:alpha:]]  one of a set   \x  x
// none of which match `/`, and between slashes or ends
//   **/  any number of directories   /**  everything below
// An unclosed set or a lone `\` at the end matches nothing at all. Bytes, not characters of a
// locale.
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
