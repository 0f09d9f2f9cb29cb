#include "health/model/source_files.h"

#include <charconv>

#include "health/trimmed.h"

namespace muster {

void SourceFiles::add(std::string path, FileReading reading) {
  files_.insert_or_assign(std::move(path), std::move(reading));
}

const FileReading& SourceFiles::reading(std::string_view path) const {
  static const FileReading missing{{}, "No such file or directory", true};
  const auto found = files_.find(path);
  return found == files_.end() ? missing : found->second;
}

std::optional<std::string_view> SourceFiles::text(std::string_view path) const {
  const FileReading& read = reading(path);
  if (!read.ok()) return std::nullopt;
  return trimmed(read.text);
}

std::optional<std::int64_t> SourceFiles::number(std::string_view path) const {
  const auto said = text(path);
  if (!said) return std::nullopt;
  const bool is_hex = said->starts_with("0x");
  const std::string_view digits = is_hex ? said->substr(2) : *said;
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, is_hex ? 16 : 10);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  return is_whole ? std::optional(value) : std::nullopt;
}

std::vector<std::string> SourceFiles::names_below(std::string_view directory) const {
  const std::string prefix = std::string(directory) + "/";
  std::vector<std::string> names;
  for (auto at = files_.lower_bound(prefix); at != files_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    const std::string_view rest = std::string_view(at->first).substr(prefix.size());
    const std::string name(rest.substr(0, rest.find('/')));
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

}  // namespace muster
