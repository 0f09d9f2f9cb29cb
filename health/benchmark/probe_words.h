// The words of a probe: names and numbers in their places, options anywhere. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

class ProbeWords {
 public:
  // Words that begin with "--" are options, each with a number or name after it, among `options`.
  static Result<ProbeWords> read(const std::vector<std::string>& words,
                                 const std::vector<std::string_view>& options);

  const std::vector<std::string>& names() const { return names_; }
  std::string text(std::string_view option) const;  // empty: not given
  // Nothing when it is given and no whole number of this range.
  std::optional<std::int64_t> number(std::string_view option, std::int64_t usual,
                                     std::int64_t least, std::int64_t most) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::string, std::less<>> options_;
};

}  // namespace muster
