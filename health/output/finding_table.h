// Findings for people: cells for a table, worst first. Text as it comes: whoever prints it makes it
// printable.
#pragma once

#include <string>
#include <vector>

#include "health/output/finding_report.h"

namespace muster {

std::vector<std::string> finding_headings();
// As many cells as headings; an empty one means that there is nothing to say.
std::vector<std::string> finding_row(const FindingReport& report);
// Those of a monitor's worst code first, then by check and device.
std::vector<FindingReport> worst_first(std::vector<FindingReport> reports);

// "131 1/h"; the value as it was found.
std::string value_text(const FindingReport& report);

}  // namespace muster
