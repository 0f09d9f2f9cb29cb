// Where the time of a job's launch went, for `--profile` and the JSON report. Pure.
#pragma once

#include <string>

#include "cli/client/find.h"
#include "cli/grammar/command_line.h"
#include "cli/terminal/document.h"
#include "scheduler/explain/launch_profile.h"

namespace muster {

// The object `launch` of the report; null before an attempt was placed.
Document launch_document(const std::optional<LaunchProfile>& profile);

// The slowest node and why, the phases over all nodes, the slowest nodes.
std::string launch_text(const LaunchProfile& profile, int width, bool color);

// Trace Event Format, as chrome://tracing and Perfetto read it: a row per node.
Document chrome_trace(const std::string& job, const LaunchProfile& profile);

// `--profile[=FILE]` of `run` and `status`.
void add_profile_option(Arguments& of, std::string& value);

// The table on stderr, the trace into the file; returns an exit code. `value`: as given, empty when
// the option was not.
int report_launch(const FoundJob& found, const std::string& value, const CommonOptions& common);

}  // namespace muster
