// Findings as the text file that a node exporter reads. No job in the labels, which would make a
// series of its own each time; the host only where findings are of several: the scraper adds its
// own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "health/output/finding_report.h"
#include "scheduler/text/clock.h"

namespace muster {

// Backslash, quote and line end escaped; what is no printable ASCII is written as `?`.
std::string prometheus_label(std::string_view text);

// The whole file. A check and device twice would make the exporter refuse it: the worst one counts.
std::string prometheus_text(const std::vector<FindingReport>& reports, Time last_run,
                            HostNames hosts = HostNames::left_out);

}  // namespace muster
