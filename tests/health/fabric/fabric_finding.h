// The one finding of a host and device among those of a fabric; the test fails where there is none.
#pragma once

#include <algorithm>
#include <string_view>

#include "health/fabric/judges.h"
#include "tests/catch.h"

namespace muster {

inline const HealthFinding& finding_at(const FabricFindings& findings, std::string_view host,
                                       std::string_view device) {
  const auto found = std::ranges::find_if(findings, [&](const FabricFinding& one) {
    return one.host == host && one.finding.device == device;
  });
  REQUIRE(found != findings.end());
  return found->finding;
}

}  // namespace muster
