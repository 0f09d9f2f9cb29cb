// What the paths of a job's inputs and outputs mean on this machine: datastores, data of the
// catalogue, outputs of other jobs. Reads files below the home; asks no store. Outputs of jobs and
// local data become local paths in the spec; the rest is told beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/data/stores.h"
#include "launcher/data/job_data.h"
#include "templates/job/job_file.h"

namespace muster {

struct ResolvedData {
  JobData data;  // inputs without a manifest, which is made from a list
  std::vector<Finding> findings;
};

// Changes the inputs of the job's spec.
ResolvedData resolve_data(JobFile& job, const KnownStores& stores, const Home& home);

// Outputs that are copied to stores once they are collected, of a job that has its name. Those
// without a path go to the default datastore, if there is one.
std::vector<JobOutput> outputs_to_stores(const JobSpec& spec, const KnownStores& stores);

// Lists what inputs hold and puts it into the spec: version, bytes, files. The texts of the
// manifests, in the order of the inputs.
Result<std::vector<std::string>> list_inputs(const Home& home, const KnownStores& stores,
                                             JobData& data, JobSpec& spec);

}  // namespace muster
