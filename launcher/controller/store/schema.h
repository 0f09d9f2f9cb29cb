// The file of the job store, `$MUSTER_HOME/muster.db`: its tables, how an older one becomes a
// current one, and how it is told from one that is not the store of the jobs beside it. Errors name
// the file and the cure.
#pragma once

#include <filesystem>

#include "launcher/controller/store/sqlite.h"

namespace muster {

inline constexpr int store_version = 16;

// Since when records say `keep` and `keep_key` (scheduler/model/keep.h). What the two are of a
// record that says neither, as columns of a SELECT.
inline constexpr int keep_version = 15;
inline constexpr const char* keep_by_kind =
    "CASE WHEN job <> '' THEN 'with_job' WHEN kind = 'node_faults_seen' THEN 'while_faulty'"
    " WHEN kind IN ('node_faulted', 'remedy_begun', 'remedy_over', 'breaker_opened')"
    " THEN 'month' ELSE 'newest' END";
inline constexpr const char* keep_key_by_kind =
    "CASE WHEN kind IN ('breaker_opened', 'breaker_reset')"
    " THEN ifnull(json_extract(payload, '$.target'), '')"
    " WHEN kind = 'node_drain_set' THEN iif(json_extract(payload, '$.drained'), '1', '0')"
    " WHEN kind <> 'node_faults_seen' OR json_array_length(payload, '$.faults') = 0 THEN ''"
    " WHEN EXISTS (SELECT 1 FROM json_each(payload, '$.faults') f"
    " WHERE json_extract(f.value, '$.remedy') = 'warn'"
    " AND json_extract(f.value, '$.on_recurrence') IS NOT NULL"
    " AND ifnull(json_extract(f.value, '$.enforced'), 1)"
    " AND json_extract(f.value, '$.code') <> '') THEN 'recurs' ELSE 'stands' END";

// Creates or migrates, all steps in one transaction; refuses a file of a newer version, naming
// both.
Status prepare_schema(Connection& connection);
// The version of the file, 0: it has no tables yet. The same refusal, nothing written.
Result<int> schema_version(Connection& connection);

// For the controller alone: with its tables, of the current version, for its owner's eyes. A file
// that is not there appears with its tables, so an empty one is the work of somebody else: beside
// jobs it is refused, and so is an absent one beside jobs that ran.
Status open_store_file(Connection& connection, const std::filesystem::path& home);

// For all others. The version of the file; 0: there is none, or none with tables. `may_annotate`:
// people's notes will be written, and the file must be there.
Result<int> read_store_file(Connection& connection, const std::filesystem::path& home,
                            bool may_annotate);

}  // namespace muster
