// The tables of the store and how an older file becomes a current one.
#pragma once

#include "launcher/controller/store/sqlite.h"

namespace muster {

inline constexpr int store_version = 15;

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

}  // namespace muster
