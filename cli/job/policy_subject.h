// Which restart rules a person means: those of a job file with its site's, of a cluster file, of a
// recorded job, or of the site alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"
#include "scheduler/model/job_spec.h"
#include "scheduler/model/result.h"

namespace muster {

struct PolicySubject {
  std::string name;  // "job.yml", "the site"
  std::optional<std::vector<RestartRule>> job_rules;  // absent: no job is named
  std::vector<RestartRule> site_rules;
};

// Whether a person means a file rather than a job.
bool names_file(const std::string& typed);

// `file` empty: the site. Prints the findings of what it reads; an Error when there is one that
// stops.
Result<PolicySubject> policy_of_file(const std::string& file, const CommonOptions& common);

// As the job was queued.
Result<PolicySubject> policy_of_job(const Home& home, const std::string& typed);

// Those rules alone, everything else as a job has it by default.
MusterSettings settings_of(const PolicySubject& subject);

}  // namespace muster
