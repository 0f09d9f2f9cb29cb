#include "launcher/staging/source_tree.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cwctype>
#include <memory>

#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/blob_store.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr int permission_bits = 0777;

Result<std::vector<std::string>> sorted_names(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(directory.c_str()), ::closedir);
  if (!opened) return stage_error("read the directory", directory, errno);
  auto names = names_in(opened.get());
  if (errno != 0) return stage_error("read the directory", directory, errno);
  return names;
}

// What becomes of a symbolic link: it stays one (an absolute target inside the tree is made
// relative), or leads out of the tree and is replaced by a copy of `target`, unless that is a
// directory that contains the tree.
struct LinkFate {
  enum class Kind { kept, copied, skipped };
  Kind kind;
  std::string target;
};

bool is_within(const std::string& path, const std::string& directory) {
  return path == directory || directory == "/" ||
         (path.starts_with(directory) && path[directory.size()] == '/');
}

// Whether `target`, seen from `depth` directories below the base, ever climbs above the base.
bool stays_inside(const fs::path& target, std::ptrdiff_t depth) {
  for (const fs::path& part : target) {
    if (part == "..")
      --depth;
    else if (part != "." && !part.empty())
      ++depth;
    if (depth < 0) return false;
  }
  return true;
}

// Where the link leads in one step: its target's real parent and last name, so that a link to
// another link of the tree stays one. Empty: nowhere.
std::string one_step(const fs::path& target) {
  std::error_code code;
  fs::path trimmed = target;
  if (!trimmed.has_filename()) trimmed = trimmed.parent_path();
  const fs::path last = trimmed.filename();
  if (last == "." || last == ".." || !trimmed.has_filename()) {
    return fs::canonical(target, code).string();
  }
  const fs::path parent = fs::canonical(trimmed.parent_path(), code);
  return code ? std::string{} : (parent / last).string();
}

// `bases` are the real paths of the tree's root and of the copied directories around the link,
// innermost last; `link` is an absolute path below the last one. Dangling links are kept.
LinkFate fate_of_link(const std::vector<std::string>& bases, const std::string& link) {
  std::error_code code;
  const fs::path text = fs::read_symlink(link, code);
  const fs::path directory = fs::path(link).parent_path();
  const fs::path target = text.is_absolute() ? text : directory / text;
  const std::string& base = bases.back();

  const std::string resolved = one_step(target);
  if (resolved.empty()) return {LinkFate::Kind::kept, text.string()};
  if (is_within(resolved, base)) {
    const fs::path below = directory.lexically_relative(base);
    const std::ptrdiff_t depth = below == "." ? 0 : std::distance(below.begin(), below.end());
    if (text.is_relative() && stays_inside(text, depth))
      return {LinkFate::Kind::kept, text.string()};
    return {LinkFate::Kind::kept, fs::path(resolved).lexically_relative(directory).string()};
  }

  const std::string real = fs::canonical(target, code).string();
  if (code) return {LinkFate::Kind::kept, text.string()};
  const auto contains = [&real](const std::string& other) { return is_within(other, real); };
  const bool is_around = std::ranges::any_of(bases, contains);
  return {is_around ? LinkFate::Kind::skipped : LinkFate::Kind::copied, real};
}

class Walk {
 public:
  explicit Walk(bool honour_ignore_files) : honours_(honour_ignore_files) {}

  Status directory(const std::string& real, const std::string& prefix);
  Status begin_at(const std::string& root);
  void add_file(const std::string& from, const std::string& path, const struct stat& facts);
  SourceTree finish();

 private:
  // Rules of an ignore file, for paths that begin with the first `prefix_length` bytes of its
  // place.
  struct Scope {
    std::size_t prefix_length;
    IgnoreRules rules;
  };

  Status entry(const std::string& real, const std::string& path);
  Status link(const std::string& real, const std::string& path, const struct stat& facts);
  Status copied_link(const std::string& target, const std::string& path);
  Status below(const std::string& real, const std::string& path, const struct stat& facts);
  Status add(SourceEntry found);
  Status enter_scope(const std::string& directory, const std::string& prefix);
  bool is_ignored(const std::string& path, bool is_directory) const;

  bool honours_;
  std::string ignore_name_;
  std::vector<std::string> bases_;
  std::vector<Scope> scopes_;
  SourceTree tree_;
  FirstSentences warnings_;
};

Status Walk::begin_at(const std::string& root) {
  bases_.push_back(root);
  if (honours_) {
    std::error_code absent;
    ignore_name_ = fs::exists(fs::path(root) / ".amlignore", absent) ? ".amlignore" : ".gitignore";
  }
  return directory(root, "");
}

// `prefix` is the directory's path in the tree with a slash at its end, empty for the root.
Status Walk::directory(const std::string& real, const std::string& prefix) {
  auto names = sorted_names(real);
  if (!names) return names.error();
  const std::size_t outer_scopes = scopes_.size();
  if (honours_ && std::binary_search(names->begin(), names->end(), ignore_name_)) {
    if (Status read = enter_scope(real, prefix); !read) return read;
  }
  const std::string parent = real == "/" ? real : real + "/";
  for (const std::string& name : *names) {
    if (Status done = entry(parent + name, prefix + name); !done) return done;
  }
  scopes_.erase(scopes_.begin() + static_cast<std::ptrdiff_t>(outer_scopes), scopes_.end());
  return Done{};
}

Status Walk::enter_scope(const std::string& directory, const std::string& prefix) {
  const std::string file = directory + "/" + ignore_name_;
  std::error_code code;
  if (!fs::is_regular_file(file, code)) return Done{};
  std::string text;
  const Fd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in || !read_whole(in.get(), text)) return stage_error("read", file, errno);
  scopes_.push_back({prefix.size(), IgnoreRules(text)});
  return Done{};
}

bool Walk::is_ignored(const std::string& path, bool is_directory) const {
  if (path == ".git" || path.ends_with("/.git")) return true;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const std::string_view inner = std::string_view(path).substr(scope->prefix_length);
    const auto verdict = scope->rules.judge(inner, is_directory);
    if (verdict != IgnoreRules::Verdict::none) return verdict == IgnoreRules::Verdict::ignored;
  }
  return false;
}

Status Walk::entry(const std::string& real, const std::string& path) {
  struct stat facts {};
  if (::lstat(real.c_str(), &facts) != 0) {
    if (errno == ENOENT) return Done{};  // removed since the directory was read
    return stage_error("read", real, errno);
  }
  if (is_ignored(path, S_ISDIR(facts.st_mode))) return Done{};
  if (S_ISLNK(facts.st_mode)) return link(real, path, facts);
  return below(real, path, facts);
}

// A directory or file that goes into the tree as such.
Status Walk::below(const std::string& real, const std::string& path, const struct stat& facts) {
  const int mode = static_cast<int>(facts.st_mode) & permission_bits;
  if (S_ISDIR(facts.st_mode)) {
    TreeEntry entry{TreeEntry::Kind::directory, path, mode, 0, {}, {}};
    if (Status added = add({std::move(entry), real, {}}); !added) return added;
    return directory(real, path + "/");
  }
  if (!S_ISREG(facts.st_mode)) {
    warnings_.add("'" + real + "' is skipped: it is neither a file nor a directory");
    return Done{};
  }
  ++tree_.files;
  tree_.bytes += facts.st_size;
  TreeEntry entry{TreeEntry::Kind::file, path, mode, facts.st_size, {}, {}};
  return add({std::move(entry), real, facts_of(facts)});
}

Status Walk::link(const std::string& real, const std::string& path, const struct stat& facts) {
  LinkFate fate = fate_of_link(bases_, real);
  if (fate.kind == LinkFate::Kind::copied) return copied_link(fate.target, path);
  if (fate.kind == LinkFate::Kind::skipped) {
    warnings_.add("the link '" + real + "' is skipped: it points to '" + fate.target +
                  "', which contains it");
    return Done{};
  }
  const int mode = static_cast<int>(facts.st_mode) & permission_bits;
  TreeEntry entry{TreeEntry::Kind::link, path, mode, 0, {}, std::move(fate.target)};
  return add({std::move(entry), real, {}});
}

Status Walk::copied_link(const std::string& target, const std::string& path) {
  struct stat facts {};
  if (::lstat(target.c_str(), &facts) != 0) return stage_error("read", target, errno);
  if (is_ignored(path, S_ISDIR(facts.st_mode))) return Done{};
  if (S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode)) {
    warnings_.add("the link '" + path + "' leads out of the tree: a copy of '" + target +
                  "' is used");
  }
  bases_.push_back(target);
  Status done = below(target, path, facts);
  bases_.pop_back();
  return done;
}

Status Walk::add(SourceEntry found) {
  if (tree_.entries.size() >= source_tree_limit_entries) {
    return Error{"'" + bases_.front() + "' holds more than " +
                 std::to_string(source_tree_limit_entries) +
                 " entries: name a smaller directory, or list what is not needed in " +
                 (ignore_name_.empty() ? "an archive" : ignore_name_)};
  }
  tree_.entries.push_back(std::move(found));
  return Done{};
}

void Walk::add_file(const std::string& from, const std::string& path, const struct stat& facts) {
  bases_.push_back(from);
  check(static_cast<bool>(below(from, path, facts)), "a single file is always added");
}

SourceTree Walk::finish() {
  warnings_.finish("warnings");
  tree_.warnings = std::move(warnings_.list);
  return std::move(tree_);
}

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

Result<SourceTree> walk_source(const fs::path& source, bool honour_ignore_files) {
  std::error_code code;
  const std::string real = fs::canonical(source, code).string();
  struct stat facts {};
  if (code) return stage_error("read", source, code.value());
  if (::stat(real.c_str(), &facts) != 0) return stage_error("read", source, errno);

  Walk walk(honour_ignore_files);
  if (S_ISDIR(facts.st_mode)) {
    if (Status done = walk.begin_at(real); !done) return done.error();
  } else if (S_ISREG(facts.st_mode)) {
    walk.add_file(real, source.filename().string(), facts);
  } else {
    return Error{"'" + source.string() + "' is neither a file nor a directory"};
  }
  return walk.finish();
}

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
