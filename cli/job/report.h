// Jobs as JSON, from their rows and journals: what `status JOB -o json` prints and what `run -o
// json` ends with (docs/report.md has its schema); as lines of a table; and where the time of a
// launch went. Pure, but for report_launch and job_table_text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/client/find.h"
#include "cli/grammar/command_line.h"
#include "cli/terminal/document.h"
#include "launcher/controller/store/journal.h"
#include "launcher/controller/store/store.h"
#include "launcher/wire/agent_request.h"
#include "scheduler/explain/launch_profile.h"
#include "scheduler/explain/summary.h"
#include "scheduler/model/job_spec.h"

namespace muster {

// With the step of the row, which is newer than the records', for the attempt that runs.
JobSummary summary_of(const JobRow& row, const JobHistory& history);

Document report_document(const JobRow& row, const JobHistory& history,
                         const std::string& directory);

// A row alone, for lists: the texts and numbers above without attempts.
Document row_document(const JobRow& row);

// What is kept of a job whose records are removed, as JSON: what `status -o json` prints of it, and
// the hashes of all that it was made of. The files themselves may be gone; whoever has them can
// tell by the hashes that they are the same.
//
//   version   1
//   report    as report_document, without what is for whoever looks into a failure
//   trees     [{place, files, bytes, hash, content: {path: hash}}]; `content` of small ones alone:
//             of others the job's trees.json has it; hash: of the lines "path mode hash"

std::string job_summary(const JobRow& row, const JobHistory& history, const std::string& directory,
                        const std::vector<Tree>& trees);

// Of a job whose records were removed: its report. Nothing: they are there.
Result<std::optional<Document>> kept_report(const FoundJob& found);

// Why its history cannot be told. Empty: it can.
std::string why_no_history(const FoundJob& found);

// How long its attempts ran, the pauses between them left out.
Milliseconds running_time(const JobSummary& job, Time now);

// As wide as the terminal. Of jobs that were restarted the journal is read.
std::string job_table_text(const Store& store, const std::vector<JobRow>& rows,
                           const CommonOptions& common);

// Empty where there is none.
inline std::string number_cell(const std::optional<std::int64_t>& number) {
  return number ? std::to_string(*number) : "";
}

// It goes on while nodes come and go.
inline bool is_elastic_row(const JobRow& row) {
  return row.nodes_min < row.nodes_max;
}

// Of an elastic job: "2-4 nodes, 3 now"; without the last part when it has none.
std::string node_range_text(const JobRow& row);
// In a table, of any job: "2-4, 3 now", "3", nothing.
std::string nodes_cell(const JobRow& row);

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

// A job's spec: every duration in seconds, `${{inputs.x}}` where a path is known on the node only,
// and
// `***` in place of what looks like a secret. Pure.

// Variables, inputs and tags whose names say that they are secret (HF_TOKEN, db-password), also
// where the command repeats them, and passwords and signatures inside URLs.
JobSpec without_secrets(JobSpec spec);

// Paths that are known on the node only stand between \x01 and \x02: as the file wrote them.
std::string with_expressions(const std::string& text);

Document spec_document(const JobSpec& spec);

}  // namespace muster
