// A drill from beginning to end: its hosts if it has any, the undisturbed run, the disturbed one,
// the verdicts. One thread; blocking for as long as the jobs take. Leaves no host, no stopped
// process and no running job behind.
#pragma once

#include <optional>
#include <string>

#include "cli/terminal/common_options.h"
#include "scheduler/model/result.h"
#include "tools/drill/file.h"
#include "tools/drill/verdict.h"

namespace muster {

struct DrillOptions {
  std::string file;
  std::optional<std::int64_t> seed;  // instead of the file's
  std::string name;                  // of the job
};

struct DrillOutcome {
  std::optional<DrillReport> report;  // none: it could not be played
  int exit_code = 0;
};

// Says on stderr what it does and what goes wrong.
DrillOutcome run_drill(const Drill& drill, const DrillOptions& options,
                       const CommonOptions& common);

}  // namespace muster
