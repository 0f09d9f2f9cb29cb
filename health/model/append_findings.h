// Findings put behind others.
#pragma once

#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "health/model/finding.h"

namespace muster {

inline void append_findings(std::vector<HealthFinding>& all, std::vector<HealthFinding> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

inline void append_findings(std::vector<HealthFinding>& all, std::optional<HealthFinding> finding) {
  if (finding) all.push_back(*std::move(finding));
}

}  // namespace muster
