// The hosts that a line of an nhc.conf is for: a glob (`n*`, `*`), a regular expression between
// slashes, or names and ranges in braces (`{n[01-20],m03}`: one range in a name, no comma inside);
// `!` in front turns it round. Immutable, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"
#include "scheduler/restart/pattern.h"

namespace muster {

class NhcTarget {
 public:
  static Result<NhcTarget> parse(std::string_view text);
  bool holds(std::string_view host) const;

 private:
  // `prefix` and `suffix` around a number of `digits` digits; without digits a name.
  struct Range {
    std::string prefix;
    std::string suffix;
    std::size_t digits = 0;
    long long low = 0;
    long long high = 0;
    bool holds(std::string_view host) const;
  };
  static Result<Range> parse_range(std::string_view text);
  static Result<std::vector<Range>> parse_ranges(std::string_view text);

  bool negated_ = false;
  std::optional<Pattern> pattern_;
  std::vector<Range> ranges_;
};

}  // namespace muster
