// One benchmark as a process of its own: runs its tool, and prints what it found (tools/tools.h).
// May use the whole node, and may hang in a driver or on a disk: whoever starts it kills it after
// its limit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// Of tcp-serve the seconds are how long it waits for its partner (ib-pair-serve: of a bandwidth, as
// of the connecting one). An HCA is "mlx5_0" or "mlx5_0:1". Returns the exit code: 0 when it
// printed what there was to say, numbers or errors; 2 when the words make no sense.
int run_probe(const std::vector<std::string>& words);

// The words of a benchmark: names and numbers in their places, options anywhere. Pure.

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
