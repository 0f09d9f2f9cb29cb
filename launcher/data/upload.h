// Outputs of a job, as they were collected, into the stores that its file names. Blocking, for a
// process beside the controller, which may be killed and begun again: what is there already and
// equal is not copied twice.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/data/job_data.h"

namespace muster {

// The first Error says which output; all are tried. `machine` is for sentences.
Status upload_outputs(const std::filesystem::path& home, const std::filesystem::path& outputs,
                      const JobData& data, const std::string& machine);

// A tree of this machine into a store: one file, or all below a directory.
Status upload_tree(const std::filesystem::path& source, const PlaceInStore& place,
                   const Credentials& credentials, const std::string& machine);

}  // namespace muster
