#include "templates/nhc_target.h"

#include <algorithm>

#include "scheduler/text/spelling.h"
#include "templates/yaml/value.h"

namespace muster {
namespace {

// Host names are shorter; a number of more digits is no number of a host.
constexpr std::size_t longest_target = 400;
constexpr std::size_t most_digits = 15;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_host_letter(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
         c == '.';
}

std::string escaped(char c) {
  const bool is_plain = is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        static_cast<unsigned char>(c) >= 0x80;
  return is_plain ? std::string(1, c) : std::string("\\") + c;
}

// The set that `glob` begins with, `[abc]`, `[!a-z]`; empty when it is not closed.
std::string set_pattern(std::string_view glob, std::size_t& length) {
  const bool negated = glob.size() > 1 && (glob[1] == '!' || glob[1] == '^');
  std::size_t at = negated ? 2 : 1;
  std::string out = negated ? "[^" : "[";
  const std::size_t first = at;
  while (at < glob.size() && (glob[at] != ']' || at == first)) {
    const bool is_range_sign = glob[at] == '-' && at > first;
    out += is_range_sign ? "-" : escaped(glob[at]);
    ++at;
  }
  if (at >= glob.size()) return "";
  length = at + 1;
  return out + "]";
}

std::string glob_pattern(std::string_view glob) {
  std::string out = "^";
  for (std::size_t at = 0; at < glob.size();) {
    std::size_t length = 1;
    std::string part;
    if (glob[at] == '*') {
      part = ".*";
    } else if (glob[at] == '?') {
      part = ".";
    } else if (glob[at] == '[') {
      part = set_pattern(glob.substr(at), length);
    }
    out += part.empty() ? escaped(glob[at]) : part;
    at += length;
  }
  return out + "$";
}

}  // namespace

bool NhcTarget::Range::holds(std::string_view host) const {
  if (digits == 0) return host == prefix;
  if (host.size() != prefix.size() + digits + suffix.size()) return false;
  if (!host.starts_with(prefix) || !host.ends_with(suffix)) return false;
  const std::string_view number = host.substr(prefix.size(), digits);
  if (!std::ranges::all_of(number, is_digit)) return false;
  const auto value = whole_number(number);
  return value && low <= *value && *value <= high;
}

// The width is that of the longer end, and the ends may be the wrong way round, as NHC has it.
Result<NhcTarget::Range> NhcTarget::parse_range(std::string_view text) {
  const Error wrong{"expected a host or a range such as n[01-20], got " + quoted_text(text)};
  const std::size_t open = text.find('[');
  Range range;
  range.prefix = std::string(text.substr(0, open));
  if (text.empty() || !std::ranges::all_of(range.prefix, is_host_letter)) return wrong;
  if (open == std::string_view::npos) return range;
  const std::size_t close = text.find(']', open);
  if (close == std::string_view::npos) return wrong;
  range.suffix = std::string(text.substr(close + 1));
  if (!std::ranges::all_of(range.suffix, is_host_letter)) return wrong;
  const std::string_view inside = text.substr(open + 1, close - open - 1);
  const std::size_t dash = inside.find('-');
  if (dash == std::string_view::npos) return wrong;
  const std::string_view low = inside.substr(0, dash);
  const std::string_view high = inside.substr(dash + 1);
  for (const std::string_view end : {low, high}) {
    const bool is_number = !end.empty() && std::ranges::all_of(end, is_digit);
    if (!is_number || end.size() > most_digits) return wrong;
  }
  const long long first = *whole_number(low);
  const long long last = *whole_number(high);
  range.digits = std::max(low.size(), high.size());
  range.low = std::min(first, last);
  range.high = std::max(first, last);
  return range;
}

Result<std::vector<NhcTarget::Range>> NhcTarget::parse_ranges(std::string_view text) {
  std::vector<Range> ranges;
  for (;;) {
    const std::size_t comma = text.find(',');
    auto range = parse_range(text.substr(0, comma));
    if (!range) return range.error();
    ranges.push_back(std::move(*range));
    if (comma == std::string_view::npos) return ranges;
    text.remove_prefix(comma + 1);
  }
}

Result<NhcTarget> NhcTarget::parse(std::string_view text) {
  if (text.size() > longest_target) return Error{"the target is too long"};
  NhcTarget target;
  target.negated_ = text.starts_with('!');
  if (target.negated_) text.remove_prefix(1);
  if (text.empty()) return Error{"the target is empty"};
  const auto is_between = [&](char open, char close) {
    return text.size() > 1 && text.front() == open && text.back() == close;
  };
  if (is_between('{', '}')) {
    auto ranges = parse_ranges(text.substr(1, text.size() - 2));
    if (!ranges) return ranges.error();
    target.ranges_ = std::move(*ranges);
    return target;
  }
  const bool is_regex = is_between('/', '/');
  if (!is_regex && text.find("[:") != std::string_view::npos) {
    return Error{"not a target: " + quoted_text(text) + ": classes such as [:digit:] are not read"};
  }
  auto pattern = Pattern::compile(is_regex ? std::string(text.substr(1, text.size() - 2))
                                           : glob_pattern(text));
  if (!pattern) return Error{"not a target: " + quoted_text(text) + ": " + pattern.error().message};
  target.pattern_ = std::move(*pattern);
  return target;
}

bool NhcTarget::holds(std::string_view host) const {
  const bool found = pattern_ ? pattern_->found_in(host)
                              : std::ranges::any_of(
                                    ranges_, [&](const Range& range) { return range.holds(host); });
  return found != negated_;
}

}  // namespace muster
