// From a checked job to one in the controller's queue: a name, the snapshot of its code and inputs
// in the state directory, the spec as understood, the request. Says what goes wrong on stderr.
#pragma once

#include <optional>
#include <string>

#include "cli/job/check.h"
#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"

namespace muster {

struct SubmitRequest {
  CheckRequest check;
  std::string name;  // instead of the file's
};

struct Submitted {
  std::optional<JobId> job;
  JobSpec spec;
  int exit_code = 0;  // why there is no job
};

// Everything from the file on. Prints findings; one sentence when it is refused.
Submitted submit_job(const Home& home, const SubmitRequest& request, const CommonOptions& common);

}  // namespace muster
