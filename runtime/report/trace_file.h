// A Chrome trace: the spans of all ranks in one file, which Perfetto, chrome://tracing and the
// profiler plug-in of TensorBoard open.
//
// One JSON object: schemaVersion, distributedInfo, deviceProperties, displayTimeUnit, otherData
// (what was dropped, how exact the clocks are) and traceEvents. A rank is a process (pid = rank)
// with one thread, named by ph "M" events; a span is a ph "X" event, ts and dur in us since the
// first span, on the clock of rank 0. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/report/trace.h"

namespace muster {

struct RankTrace {
  std::string host;
  std::vector<TraceEntry> entries;
  std::uint64_t dropped = 0;
  std::int64_t ahead_ns = 0;  // of its clock, compared with rank 0's
  std::int64_t error_ns = 0;  // of that, at most
};

std::string format_trace(std::span<const RankTrace> ranks);

}  // namespace muster
