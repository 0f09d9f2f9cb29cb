// The image of a job, at the submitter's: what its environment means here (by the cluster file, by
// the catalogue, by the name of one of Azure's own), whether the site allows it, what its registry
// has under the name; its build on this machine, and the files with which it travels where nodes do
// not fetch it. Asks registries; prints warnings.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"
#include "launcher/wire/agent_request.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/image_settings.h"
#include "templates/job/job_file.h"

namespace muster {

// azureml:NAME[:VERSION|@LABEL], azureml://registries/R/environments/NAME/versions/V, and the long
// forms of a workspace. Pure.
struct EnvironmentName {
  std::string name;
  std::string version{};   // or @label; empty: the newest
  std::string registry{};  // empty: the workspace's own
};
EnvironmentName environment_name(std::string_view reference);

// "mcr.microsoft.com/azureml/curated/…" of a name that Azure offers; else empty. Pure.
std::string curated_image(const EnvironmentName& name);

// Puts what it means into the job. Findings: it is not known, and the site refuses such a job.
std::vector<Finding> resolve_environment(JobFile& job, const ImageSettings& images,
                                         const Home& home);

// An environment file of Azure's as the catalogue keeps it: its conda file in it, its paths
// absolute. What is wrong with it is in the findings of `file`.
std::string environment_text(const JobFile& file);

// Of an image that the site does not allow.
std::vector<Finding> image_findings(const JobFile& job, const ImageSettings& images);

// The digest that every node and every attempt runs, and how large it is. Ends the verb where the
// registry has no such image for this user; where it cannot be asked, warns and goes on.
void pin_image(EnvironmentSpec& environment, const ImageSettings& images,
               const CommonOptions& common);

// What a node that pulls the image needs beside its name; empty: nothing, or the nodes' own.
std::string login_for_nodes(const EnvironmentSpec& environment, const CommonOptions& common);

// `environment.build` and `conda_file`, as far as nothing is done for them.
struct ImageBuild {
  std::string context;               // a directory; of `conda_file`: made when it is built
  std::string conda{};               // the text of that
  std::string dockerfile{};          // with the digests of what it begins with
  std::vector<std::string> bases{};  // as nodes would ask for them
  std::string name{};                // of the image: by its content
  std::int64_t base_bytes = 0;       // of the bases, as far as their registries say it
  bool is_built = false;             // podman here has it
};

// Nothing: the job's image is not built. Ends the verb where it cannot be: a file that is not
// there, an image that its registry does not have.
std::optional<ImageBuild> plan_build(const EnvironmentSpec& environment,
                                     const ImageSettings& images, const CommonOptions& common);

// One build for each content. What it says goes to a file below the home, its last lines to who
// waits. The environment then has the image.
void build_image(const ImageBuild& build, EnvironmentSpec& environment, const Home& home,
                 const CommonOptions& common);

// Before an image of so many bytes (0: not known) is copied from here to so many nodes, each over a
// link of its own: warns where they are many. Ends the verb where it is more than a site expects
// that has not asked for it.
void check_copies(std::int64_t bytes, int nodes, const ImageSettings& images,
                  const CommonOptions& common);

// The tree that brings the image to nodes. Nothing: they have it, or pull it themselves.
std::optional<Tree> image_tree(EnvironmentSpec& environment, bool is_built, const Home& home,
                               const ComputeTarget& target, const ImageSettings& images, int nodes,
                               const CommonOptions& common);

// In the controller's child, for nodes that cannot reach the registry: as if the job had been
// submitted with that tree. `words`: the verb, the home, the job; the image's name, digest and
// bytes; how many nodes.
Result<std::string> fetch_for_nodes(const std::vector<std::string>& words);

}  // namespace muster
