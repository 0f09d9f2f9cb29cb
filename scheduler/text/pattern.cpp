#include "scheduler/text/pattern.h"

#include <algorithm>

#include "scheduler/text/text.h"

namespace muster {

namespace {

// More devices than any node has.
constexpr std::size_t names_max = 256;

// Whether `c` is in the set that `pattern` begins with, `[…]`; `end` is behind it.
bool is_in_set(std::string_view pattern, char c, std::size_t& end) {
  bool found = false;
  std::size_t at = 1;
  while (at < pattern.size() && pattern[at] != ']') {
    const bool is_range =
        at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']';
    const char last = is_range ? pattern[at + 2] : pattern[at];
    found = found || (pattern[at] <= c && c <= last);
    at += is_range ? 3 : 1;
  }
  end = at + 1;
  return found && at < pattern.size();
}

// How much of the pattern one character takes; nothing: it does not fit.
std::optional<std::size_t> step(std::string_view pattern, char c) {
  if (pattern.empty()) return std::nullopt;
  if (pattern.front() != '[')
    return pattern.front() == c ? std::optional<std::size_t>(1) : std::nullopt;
  std::size_t end = 0;
  return is_in_set(pattern, c, end) ? std::optional(end) : std::nullopt;
}

// The characters of the set that `pattern` begins with; `length` is that of the set.
std::optional<std::string> characters_of_set(std::string_view pattern, std::size_t& length) {
  const std::size_t end = pattern.find(']');
  if (end == std::string_view::npos || end == 1) return std::nullopt;
  length = end + 1;
  std::string characters;
  for (int c = 1; c < 128; ++c) {
    const std::string_view set = pattern.substr(0, length);
    if (fits_pattern(set, std::string(1, static_cast<char>(c)))) characters += static_cast<char>(c);
  }
  return characters;
}

std::size_t hex_digits(std::string_view text) {
  return std::min(text.find_first_not_of("0123456789abcdefABCDEF"), text.size());
}

// At least four digits, more only where they are needed.
std::string normal_domain(std::string_view digits) {
  while (digits.size() > 4 && digits.front() == '0') digits.remove_prefix(1);
  return std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + lower_case(digits);
}

struct Taken {
  std::string address;
  std::size_t size = 0;
};

// `bb:dd` or `bb:dd.f`
std::optional<Taken> take_bus(std::string_view text) {
  if (hex_digits(text) != 2 || text.substr(2, 1) != ":") return std::nullopt;
  if (hex_digits(text.substr(3)) != 2) return std::nullopt;
  const bool has_function = text.size() > 6 && text[5] == '.' && text[6] >= '0' && text[6] <= '7' &&
                            hex_digits(text.substr(6)) == 1;
  return Taken{lower_case(text.substr(0, 5)) + "." + (has_function ? text[6] : '0'),
               has_function ? std::size_t{7} : std::size_t{5}};
}

// `dddd:bb:dd[.f]`
std::optional<Taken> take_address(std::string_view text) {
  const std::size_t domain = hex_digits(text);
  if (domain < 4 || domain > 8 || text.substr(domain, 1) != ":") return std::nullopt;
  auto bus = take_bus(text.substr(domain + 1));
  if (!bus) return std::nullopt;
  return Taken{normal_domain(text.substr(0, domain)) + ":" + bus->address, domain + 1 + bus->size};
}

}  // namespace

bool fits_pattern(std::string_view pattern, std::string_view text) {
  std::optional<std::size_t> star;  // the latest, and how much of the text it takes so far
  std::size_t star_text = 0;
  std::size_t p = 0;
  std::size_t t = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (const auto taken = step(pattern.substr(std::min(p, pattern.size())), text[t])) {
      p += *taken;
      ++t;
    } else if (star) {
      p = *star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p >= pattern.size();
}

std::optional<std::vector<std::string>> names_of_pattern(std::string_view pattern) {
  std::vector<std::string> names{""};
  while (!pattern.empty()) {
    if (pattern.front() == '*') return std::nullopt;
    std::size_t length = 1;
    const bool is_set = pattern.front() == '[';
    const auto characters = is_set ? characters_of_set(pattern, length)
                                   : std::optional(std::string(1, pattern.front()));
    if (!characters || names.size() * characters->size() > names_max) return std::nullopt;
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const char c : *characters) longer.push_back(name + c);
    }
    names = std::move(longer);
    pattern.remove_prefix(length);
  }
  return names;
}

std::optional<std::string> normal_pci_address(std::string_view text) {
  if (text.starts_with("PCI:")) text.remove_prefix(4);
  auto taken = take_address(text);
  if (!taken) {
    taken = take_bus(text);
    if (taken) taken->address.insert(0, "0000:");
  }
  if (!taken || taken->size != text.size()) return std::nullopt;
  return taken->address;
}

std::optional<std::string> find_pci_address(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t digits = hex_digits(text.substr(at));
    if (digits == 0) {
      ++at;
      continue;
    }
    if (auto taken = take_address(text.substr(at))) return taken->address;
    at += digits;
  }
  return std::nullopt;
}

}  // namespace muster
