// A job's spec as a result for machines: every duration in seconds, `${{inputs.x}}` where a path is
// known on the node only, and `***` in place of what looks like a secret. Pure.
#pragma once

#include <string>

#include "cli/terminal/document.h"
#include "scheduler/model/job_spec.h"

namespace muster {

// Variables, inputs and tags whose names say that they are secret (HF_TOKEN, db-password), also
// where the command repeats them, and passwords and signatures inside URLs.
JobSpec without_secrets(JobSpec spec);

// Paths that are known on the node only stand between \x01 and \x02: as the file wrote them.
std::string with_expressions(const std::string& text);

Document spec_document(const JobSpec& spec);

}  // namespace muster
