#include "templates/nhc_arguments.h"

#include <cmath>

#include "scheduler/text/spelling.h"
#include "templates/yaml/value.h"

namespace muster {
namespace {

constexpr double most_size_kb = 1e15;

}  // namespace

std::string plain_word(const std::vector<NhcWord>& words, std::size_t at) {
  return at < words.size() && !words[at].expands ? words[at].text : "";
}

std::optional<double> number_at(const std::vector<NhcWord>& words, std::size_t at) {
  const auto number = real_number(plain_word(words, at));
  return number && *number >= 0 ? number : std::nullopt;
}

std::optional<int> count_at(const std::vector<NhcWord>& words, std::size_t at, int highest) {
  const auto number = whole_number(plain_word(words, at));
  if (!number || *number < 0 || *number > highest) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<double> nhc_size_kb(std::string text) {
  if (text.ends_with('b') || text.ends_with('B')) text.pop_back();
  constexpr std::string_view units = "kmgtp";
  double factor = 1;
  if (!text.empty()) {
    const char letter = static_cast<char>(text.back() | 0x20);
    const std::size_t power = units.find(letter);
    if (power != std::string_view::npos) {
      factor = std::pow(1024.0, static_cast<double>(power));
      text.pop_back();
    }
  }
  const auto number = whole_number(text);
  if (!number || *number < 0 || static_cast<double>(*number) * factor > most_size_kb) {
    return std::nullopt;
  }
  return static_cast<double>(*number) * factor;
}

std::optional<double> nhc_percent(std::string text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.pop_back();
  const auto number = real_number(text);
  return number && *number >= 0 && *number <= 100 ? number : std::nullopt;
}

NhcOptions nhc_options(const std::vector<NhcWord>& words, std::string_view known) {
  NhcOptions options;
  std::size_t at = 0;
  const auto is_option = [&] { return words[at].text.size() > 1 && words[at].text[0] == '-'; };
  for (; at < words.size() && is_option(); ++at) {
    const std::string& word = words[at].text;
    if (word == "--") {
      ++at;
      break;
    }
    for (std::size_t i = 1; i < word.size(); ++i) {
      const std::size_t place = word[i] == ':' ? known.npos : known.find(word[i]);
      if (place == known.npos) options.error = "unknown option " + quoted_text(word);
      if (place == known.npos) return options;
      if (known.substr(place + 1, 1) != ":") {
        options.given[word[i]].emplace_back();
        continue;
      }
      std::string argument = word.substr(i + 1);
      if (argument.empty() && at + 1 < words.size()) argument = plain_word(words, ++at);
      if (argument.empty()) options.error = "expected an argument of " + quoted_text(word);
      options.given[word[i]].push_back(argument);
      break;
    }
  }
  for (; at < words.size(); ++at) options.rest.push_back(plain_word(words, at));
  return options;
}

}  // namespace muster
