#include "templates/yaml/host_list.h"

#include <limits>
#include <optional>
#include <set>

#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/value.h"

namespace muster {
namespace {

using Names = std::vector<std::string>;

Error bad(std::string_view what, const std::string& why) {
  return Error{"host list " + quoted_text(what) + ": " + why};
}

std::optional<int> host_number(std::string_view digits) {
  const auto value = read_integer(digits);
  const bool is_one = value && *value >= 0 && *value <= std::numeric_limits<int>::max();
  return is_one ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::string padded(int number, std::size_t width) {
  std::string out = std::to_string(number);
  return out.size() < width ? std::string(width - out.size(), '0') + out : out;
}

// Splits at commas outside brackets; blanks around the parts are dropped.
std::optional<Names> split(std::string_view text, bool in_brackets) {
  Names parts(1);
  int depth = 0;
  for (const char letter : text) {
    if (letter == '[') ++depth;
    if (letter == ']') --depth;
    if (depth < 0 || depth > (in_brackets ? 0 : 1)) return std::nullopt;
    if (letter == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  if (depth != 0) return std::nullopt;
  for (std::string& part : parts) part = std::string(trimmed(part));
  return parts;
}

// `01-16` or `7`, as padded numbers.
Result<Names> expand_range(std::string_view range) {
  const std::size_t dash = range.find('-');
  const std::string_view low_text = range.substr(0, dash);
  const std::string_view high_text = dash == range.npos ? low_text : range.substr(dash + 1);
  const auto low = host_number(low_text);
  const auto high = host_number(high_text);
  if (!low || !high) return bad(range, "expected a number or a range such as 01-16");
  if (*high < *low) return bad(range, "the range runs backwards");
  if (*high - *low >= max_hosts) return bad(range, "more than 65536 hosts");
  if (low_text.size() > 16) return bad(range, "too many digits");
  Names out;
  for (int number = *low; number <= *high; ++number) {
    out.push_back(padded(number, low_text.size()));
  }
  return out;
}

Result<Names> expand_bracket(std::string_view inside) {
  const auto ranges = split(inside, true);
  if (!ranges) return bad(inside, "brackets do not match");
  Names out;
  for (const std::string& range : *ranges) {
    Result<Names> numbers = expand_range(range);
    if (!numbers) return numbers;
    out.insert(out.end(), numbers->begin(), numbers->end());
    if (out.size() > static_cast<std::size_t>(max_hosts))
      return bad(inside, "more than 65536 hosts");
  }
  return out;
}

// One name, brackets multiplied out from the left.
Result<Names> expand_name(std::string_view name) {
  Names out{""};
  std::string_view rest = name;
  while (!rest.empty()) {
    const std::size_t open = rest.find('[');
    for (std::string& each : out) each += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find(']', open);
    const Result<Names> numbers = expand_bracket(rest.substr(open + 1, close - open - 1));
    if (!numbers) return numbers.error();
    if (out.size() * numbers->size() > static_cast<std::size_t>(max_hosts)) {
      return bad(name, "more than 65536 hosts");
    }
    Names longer;
    for (const std::string& each : out) {
      for (const std::string& number : *numbers) longer.push_back(each + number);
    }
    out = std::move(longer);
    rest.remove_prefix(close + 1);
  }
  return out;
}

bool is_host_name(std::string_view name) {
  return name.size() <= 253 && !name.starts_with('-') && is_word_of(name, "-._:");
}

}  // namespace

Result<std::vector<std::string>> expand_hosts(std::string_view text) {
  const auto parts = split(text, false);
  if (!parts) return bad(text, "brackets do not match");
  Names out;
  std::set<std::string> seen;
  for (const std::string& part : *parts) {
    const Result<Names> names = expand_name(part);
    if (!names) return names.error();
    for (const std::string& name : *names) {
      if (!is_host_name(name)) return bad(text, quoted_text(name) + " is not a host name");
      if (!seen.insert(name).second) return bad(text, quoted_text(name) + " is listed twice");
      out.push_back(name);
      if (out.size() > static_cast<std::size_t>(max_hosts))
        return bad(text, "more than 65536 hosts");
    }
  }
  return out;
}

}  // namespace muster
