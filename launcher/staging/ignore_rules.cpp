#include "launcher/staging/ignore_rules.h"

#include <algorithm>
#include <string>

namespace muster {

namespace {

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

IgnoreRules::IgnoreRules(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    add_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
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
