#include "templates/yaml/yaml_1_1.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "templates/yaml/value.h"

namespace muster {
namespace {

constexpr std::string_view decimals = "0123456789_";

std::string without_underscores(std::string_view text) {
  std::string out(text);
  std::erase(out, '_');
  return out;
}

std::optional<long long> digits(std::string_view text, int base) {
  const std::string plain = without_underscores(text);
  long long value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value, base);
  if (error != std::errc{} || end != plain.data() + plain.size()) return std::nullopt;
  return value;
}

// `12:30:45`, to the base of sixty.
std::optional<long long> sexagesimal(std::string_view text) {
  if (text.find(':') == text.npos || text.front() == '0') return std::nullopt;
  long long total = 0;
  for (bool first = true; !text.empty(); first = false) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view part = text.substr(0, colon);
    if (!is_made_of(part, decimals) || part.size() > 9 || total > 1'000'000'000) return {};
    const auto value = digits(part, 10);
    if (!value || (!first && (part.size() > 2 || *value > 59))) return std::nullopt;
    total = total * 60 + *value;
    if (colon + 1 == text.size()) return std::nullopt;
    text.remove_prefix(std::min(colon + 1, text.size()));
  }
  return total;
}

// A whole number in any of the forms, without its sign.
std::optional<long long> integer_of(std::string_view text) {
  if (text.starts_with("0x")) return digits(text.substr(2), 16);
  if (text.starts_with("0b")) return digits(text.substr(2), 2);
  if (const auto octal = octal_number(text)) return octal;
  const bool plain =
      text == "0" || (is_made_of(text, decimals) && text.front() != '0' && text.front() != '_');
  return plain ? digits(text, 10) : sexagesimal(text);
}

// A number with a point; an exponent has a sign there.
std::optional<double> fraction_of(std::string_view text) {
  const std::size_t point = text.find('.');
  if (point == text.npos) return std::nullopt;
  const std::size_t exponent = std::min(text.find_first_of("eE"), text.size());
  const std::string_view power = text.substr(exponent);
  const bool bare = power.empty() || (power.size() > 2 && (power[1] == '+' || power[1] == '-'));
  if (exponent < point || !bare) return std::nullopt;
  if (text.find_first_of("0123456789") >= exponent) return std::nullopt;
  return real_number(without_underscores(text));
}

// As Python prints it: with a point, and an exponent only where the number is very long.
std::string python_text(double value) {
  char out[64];
  const double size = std::abs(value);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(out, out + sizeof out, value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(out, end.ptr);
  if (fixed && text.find('.') == text.npos) text += ".0";
  return text;
}

// `2024-01-05`, and with a time behind it.
bool is_date(std::string_view text) {
  const auto digit = [&](std::size_t i) { return text[i] >= '0' && text[i] <= '9'; };
  if (text.size() < 8 || text[4] != '-' || !digit(0) || !digit(1) || !digit(2) || !digit(3)) {
    return false;
  }
  const std::size_t dash = text.find('-', 5);
  if (dash == text.npos || dash == 5 || dash > 7) return false;
  std::size_t end = dash + 1;
  while (end < text.size() && end < dash + 3 && digit(end)) ++end;
  const bool alone = end == text.size() || text[end] == 'T' || text[end] == 't' || text[end] == ' ';
  return digit(5) && digit(dash - 1) && end > dash + 1 && alone;
}

}  // namespace

std::optional<long long> octal_number(std::string_view text) {
  if (text.size() < 2 || text.front() != '0' || !is_made_of(text, "01234567_")) return std::nullopt;
  return digits(text, 8);
}

std::optional<bool> boolean_in_azure(std::string_view text) {
  return text.size() < 2 ? std::nullopt : boolean_word(text);
}

bool is_text_in_azure(std::string_view text) {
  if (text.empty() || boolean_in_azure(text) || is_date(text)) return false;
  const bool has_sign = text.front() == '-' || text.front() == '+';
  const std::string_view size = has_sign ? text.substr(1) : text;
  const std::string word = lower_case(size);
  const bool is_special = word == ".inf" || (word == ".nan" && !has_sign);
  return size.empty() || (!is_special && !integer_of(size) && !fraction_of(size));
}

std::optional<std::string> other_in_azure(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (is_date(text)) return "Azure ML reads a date";
  const bool negative = text.front() == '-';
  const std::string_view size = negative || text.front() == '+' ? text.substr(1) : text;
  if (size.empty()) return std::nullopt;
  std::string read;
  if (const auto whole = integer_of(size)) {
    read = std::to_string(negative ? -*whole : *whole);
  } else if (const auto fraction = fraction_of(size)) {
    read = python_text(negative ? -*fraction : *fraction);
  }
  if (read.empty() || read == text) return std::nullopt;
  return "Azure ML passes " + read;
}

}  // namespace muster
