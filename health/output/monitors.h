// Findings as the answer of a Nagios plugin: one line and an exit code.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/output/finding_report.h"
#include "scheduler/text/clock.h"

namespace muster {

// Longer lines are cut by what reads them, in the middle of a number.
inline constexpr std::size_t nagios_text_most = 1024;

struct PluginAnswer {
  std::string line;  // without its end: "MUSTER CRITICAL - … | checks=96 …"
  int exit_code = 3;
};

// Nothing was checked: unknown. `verdict`: what the whole has been found to be; then checks that
// are unknown are told, and only warnings make it worse than ok. Without one the worst counts.
// Counters that a first run has nothing to compare with yet (`first_readings`) were looked at, and
// nothing is wrong with them.
PluginAnswer nagios_answer(const std::vector<FindingReport>& reports,
                           HostNames hosts = HostNames::left_out, int first_readings = 0,
                           std::optional<MonitorCode> verdict = std::nullopt);

// Findings as the text file that a node exporter reads. No job in the labels, which would make a
// series of its own each time; the host only where findings are of several: the scraper adds its
// own.

// Backslash, quote and line end escaped; what is no printable ASCII is written as `?`.
std::string prometheus_label(std::string_view text);

// The whole file. A check and device twice would make the exporter refuse it: the worst one counts.
std::string prometheus_text(const std::vector<FindingReport>& reports, Time last_run,
                            HostNames hosts = HostNames::left_out);

}  // namespace muster
