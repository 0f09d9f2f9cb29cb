// One job as JSON, from its row and its journal: what `status JOB -o json` prints and what `run -o
// json` ends with. Pure.
//
// The object; absent things are null:
//   name display_name experiment compute user directory   texts
//   status         Azure's state name
//   exit_code      what `muster run` returns, null while the job lives
//   reason         one sentence: why it waits, or why it ended
//   submitted_at started_at ended_at   RFC 3339, UTC
//   steps          newest step seen
//   checkpoint     {step, path}: the newest sealed one
//   tags           {key: text}
//   attempts       [{number, nodes: [name], status, placed_at, started_at, ended_at,
//                    resumed_from_step, last_step, checkpoint,
//                    cause, class, rule, first_rank, first_node, rank_exit: {code, signal},
//                    first_failure: {rank, node, when, margin_ms, uncertainty_ms, followed,
//                    candidates: [{rank, node, how}], evidence: [text]}, followed_by}]
//     first_failure: rank and node are null when nobody can be named, then `candidates` lists who
//     may have been it; rank alone is null when a node was lost
//   program_exit   rank_exit of the last attempt, also where exit_code is muster's own
//     status is `running`, `succeeded`, `failed` or `abandoned` (before it started); class, rule,
//     first_* and rank_exit only for `failed`; rank_exit is the first failed rank's own end, or of
//     several that may have been first one's, one member null
//   launch         where the time of the newest attempt's launch went: see launch_report.h
#pragma once

#include <string>
#include <vector>

#include "cli/client/find.h"
#include "cli/terminal/document.h"
#include "launcher/controller/store/store.h"
#include "scheduler/model/record.h"

namespace muster {

Document report_document(const JobRow& row, const JobHistory& history,
                         const std::string& directory);

// A row alone, for lists: the texts and numbers above without attempts.
Document row_document(const JobRow& row);

}  // namespace muster
