// The image of a job, at the submitter's: what its environment means here, whether the site allows
// it, what its registry has under the name. Asks registries; prints warnings.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "scheduler/model/image_settings.h"
#include "scheduler/model/job_spec.h"
#include "templates/job/job_file.h"

namespace muster {

// Of an image that the site does not allow.
std::vector<Finding> image_findings(const JobFile& job, const ImageSettings& images);

// The digest that every node and every attempt runs, and how large it is. Ends the verb where the
// registry has no such image for this user; where it cannot be asked, warns and goes on.
void pin_image(EnvironmentSpec& environment, const ImageSettings& images,
               const CommonOptions& common);

// What a node that pulls the image needs beside its name; empty: nothing, or the nodes' own.
std::string login_for_nodes(const EnvironmentSpec& environment, const CommonOptions& common);

}  // namespace muster
