#include "launcher/staging/source_tree.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/blob_store.h"
#include "launcher/staging/glob.h"

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
  if (auto* kept = std::get_if<KeepLink>(&fate)) {
    const int mode = static_cast<int>(facts.st_mode) & permission_bits;
    TreeEntry entry{TreeEntry::Kind::link, path, mode, 0, {}, std::move(kept->target)};
    return add({std::move(entry), real, {}});
  }
  if (const auto* skipped = std::get_if<SkipLink>(&fate)) {
    warnings_.add("the link '" + real + "' is skipped: it points to '" + skipped->target +
                  "', which contains it");
    return Done{};
  }
  return copied_link(std::get<CopyTarget>(fate).real_path, path);
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

LinkFate fate_of_link(const std::vector<std::string>& bases, const std::string& link) {
  std::error_code code;
  const fs::path text = fs::read_symlink(link, code);
  const fs::path directory = fs::path(link).parent_path();
  const fs::path target = text.is_absolute() ? text : directory / text;
  const std::string& base = bases.back();

  const std::string resolved = one_step(target);
  if (resolved.empty()) return KeepLink{text.string()};
  if (is_within(resolved, base)) {
    const fs::path below = directory.lexically_relative(base);
    const std::ptrdiff_t depth = below == "." ? 0 : std::distance(below.begin(), below.end());
    if (text.is_relative() && stays_inside(text, depth)) return KeepLink{text.string()};
    return KeepLink{fs::path(resolved).lexically_relative(directory).string()};
  }

  const std::string real = fs::canonical(target, code).string();
  if (code) return KeepLink{text.string()};
  const auto contains = [&real](const std::string& other) { return is_within(other, real); };
  if (std::any_of(bases.begin(), bases.end(), contains)) return SkipLink{real};
  return CopyTarget{real};
}

}  // namespace muster
