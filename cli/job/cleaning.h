// Removes from the state directory what nobody needs any more: records of old jobs, folders of
// jobs where the user's settings say so, what killed submissions left, files that no job needs.
// Safe beside a controller and submissions, and against a kill at any point: each step is whole or
// not done, and the next cleaning does the rest.
#pragma once

#include <vector>

#include "launcher/controller/store/home.h"
#include "scheduler/model/result.h"
#include "scheduler/model/retention.h"

namespace muster {

// The user's retention.yml, or the defaults; an Error says what is wrong in it.
Result<RetentionLimits> user_retention();

struct Cleaning {
  Home home;
  RetentionLimits keep;
  Time now;
  bool dry_run = false;
};

// One for each kind of thing that was, or would be, removed. Ends the verb where that fails.
std::vector<Removed> clean_state_directory(const Cleaning& cleaning);

}  // namespace muster
