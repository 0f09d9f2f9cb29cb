// One job as JSON, from its row and its journal: what `status JOB -o json` prints and what `run -o
// json` ends with (docs/report.md has its schema). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/client/find.h"
#include "cli/terminal/document.h"
#include "launcher/controller/store/store.h"
#include "launcher/wire/agent_request.h"
#include "scheduler/explain/summary.h"
#include "scheduler/model/record.h"

namespace muster {

// With the step of the row, which is newer than the records', for the attempt that runs.
JobSummary summary_of(const JobRow& row, const JobHistory& history);

Document report_document(const JobRow& row, const JobHistory& history,
                         const std::string& directory);

// A row alone, for lists: the texts and numbers above without attempts.
Document row_document(const JobRow& row);
Document rows_document(const std::vector<JobRow>& rows);

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

}  // namespace muster
