#include "launcher/staging/source_link.h"

#include <algorithm>
#include <filesystem>

namespace muster {

namespace {

namespace fs = std::filesystem;

bool is_within(const std::string& path, const std::string& directory) {
  return path == directory || directory == "/" ||
         (path.starts_with(directory) && path[directory.size()] == '/');
}

// Whether `target`, seen from `depth` directories below the base, ever climbs above the base.
bool stays_inside(const fs::path& target, std::ptrdiff_t depth) {
  for (const fs::path& part : target) {
    if (part == "..") --depth;
    else if (part != "." && !part.empty()) ++depth;
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
