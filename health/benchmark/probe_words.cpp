#include "health/benchmark/probe_words.h"

#include <algorithm>
#include <charconv>

namespace muster {

Result<ProbeWords> ProbeWords::read(const std::vector<std::string>& words,
                                    const std::vector<std::string_view>& options) {
  ProbeWords read;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) {
      read.names_.push_back(words[i]);
      continue;
    }
    if (std::ranges::find(options, words[i]) == options.end())
      return Error{"there is no option " + words[i] + " here"};
    if (i + 1 == words.size()) return Error{words[i] + " needs a value"};
    read.options_[words[i]] = words[i + 1];
    ++i;
  }
  return read;
}

std::string ProbeWords::text(std::string_view option) const {
  const auto found = options_.find(option);
  return found == options_.end() ? std::string() : found->second;
}

std::optional<std::int64_t> ProbeWords::number(std::string_view option, std::int64_t usual,
                                               std::int64_t least, std::int64_t most) const {
  const auto found = options_.find(option);
  if (found == options_.end()) return usual;
  const std::string& word = found->second;
  std::int64_t value = 0;
  const auto [at, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc() && at == word.data() + word.size();
  return is_number && value >= least && value <= most ? std::optional(value) : std::nullopt;
}

}  // namespace muster
