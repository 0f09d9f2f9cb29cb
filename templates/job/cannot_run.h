// What a job file may say and this version cannot do yet. Parsing accepts it, running refuses it:
// nothing is ignored in silence.
#pragma once

#include <vector>

#include "templates/job/job_file.h"

namespace muster {

// One sentence for each thing: `unresolved` findings stop `run` and `submit`, warnings name
// settings that are checked and kept but not acted on. For any kind of file.
std::vector<Finding> cannot_run_yet(const JobFile& job);

}  // namespace muster
