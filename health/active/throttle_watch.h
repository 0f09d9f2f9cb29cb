// How often processors were slowed for their heat while somebody looked, as the kernel counts it:
// thermal_throttle/{core,package}_throttle_count of each processor. Virtual machines show none.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "health/model/source_files.h"

namespace muster {

std::vector<std::string> throttle_sources();

class ThrottleWatch {
 public:
  // A look; counting begins where a counter is seen first.
  void add(const SourceFiles& files);

  std::int64_t events() const;  // since the first look
  // "cpu 3 core 5 times, package 0 2 times"
  std::string text() const;
  // Empty: all counters that were seen were read at each later look.
  const std::string& unwatched() const { return unwatched_; }
  bool has_counters() const { return !last_.empty(); }

 private:
  using Counts = std::map<std::string, std::int64_t>;
  Counts read(const SourceFiles& files);

  Counts last_;
  Counts grown_;
  std::string unwatched_;
};

}  // namespace muster
