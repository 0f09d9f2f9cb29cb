// Images that the nodes do not get from a registry: what the job has built on this machine, and
// what the submitter fetches for all of them. They travel as the files of a tree, each named by its
// SHA-256, with the job's others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"
#include "launcher/wire/agent_request.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/image_settings.h"
#include "scheduler/model/job_spec.h"

namespace muster {

// `environment.build` and `conda_file`, as far as nothing is done for them.
struct ImageBuild {
  std::string context;               // a directory; of `conda_file`: made when it is built
  std::string conda{};               // the text of that
  std::string dockerfile{};          // with the digests of what it begins with
  std::vector<std::string> bases{};  // as nodes would ask for them
  std::string name{};                // of the image: by its content
};

// Nothing: the job's image is not built. Ends the verb where it cannot be: a file that is not
// there, an image that its registry does not have.
std::optional<ImageBuild> plan_build(const EnvironmentSpec& environment,
                                     const ImageSettings& images, const CommonOptions& common);

// One build for each content. What it says goes to a file below the home, its last lines to who
// waits. The environment then has the image.
void build_image(const ImageBuild& build, EnvironmentSpec& environment, const Home& home,
                 const CommonOptions& common);

// The tree that brings the image to nodes. Nothing: they have it, or pull it themselves.
std::optional<Tree> image_tree(EnvironmentSpec& environment, bool is_built, const Home& home,
                               const ComputeTarget& target, const ImageSettings& images,
                               const CommonOptions& common);

}  // namespace muster
