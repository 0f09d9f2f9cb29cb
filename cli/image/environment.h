// The environment that a job names, as it is here: by the cluster file, by the catalogue, by the
// name of one of Azure's own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/controller/store/home.h"
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

}  // namespace muster
