// The directories of jobs on a node: which there are, and what of one may go when its job is over.
#pragma once

#include <string>
#include <vector>

#include "launcher/agent/keeper/layout.h"

namespace muster {

// Jobs of this controller and node of whose directory more than checkpoints is there, for the
// greeting. Of very many those first that hold more than outputs, which stay as long as a resume
// may need them; then the oldest.
std::vector<JobId> jobs_with_folders(const RunDirectory& run);

// All but checkpoints, and without `outputs_too` but what ranks wrote.
std::vector<std::string> disposable_parts(const std::string& job_folder, bool outputs_too);

// The directory itself and that of its checkpoints, as far as nothing is in them.
void remove_if_empty(const AttemptLayout& layout);

}  // namespace muster
