// The compute targets that this machine knows, and what its files have to say. Reads files; prints
// findings and nothing else.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/image_settings.h"
#include "scheduler/model/job_spec.h"
#include "scheduler/model/result.h"
#include "templates/resource/datastore.h"
#include "templates/yaml/finding.h"
#include "templates/yaml/read_options.h"

namespace muster {

struct KnownTargets {
  std::vector<ComputeTarget> targets;  // the built-in ones first
  std::string default_target;
  std::vector<RestartRule> rules;  // of the cluster files, in their order
  ImageSettings images;
  std::vector<DatastoreFile> datastores;
  std::string default_datastore;
  DataCacheSettings data;         // of the first file that says any
  std::vector<Finding> findings;  // about the cluster files
};

// From --cluster, else $MUSTER_CONFIG (files, separated by `:`), else
// `$XDG_CONFIG_HOME/muster/clusters/*.yml` and the user's sandbox. An Error: a file that was asked
// for cannot be read.
Result<KnownTargets> find_targets(const CommonOptions& common);

// Of all of them.
std::vector<std::string> all_node_names(const std::vector<ComputeTarget>& targets);

// An Error: a file that --cluster or $MUSTER_CONFIG names cannot be read. For verbs that need none.
Status check_named_files(const CommonOptions& common);

// Of this user's sandbox, which `muster-sandbox up` writes while it is up.
std::string sandbox_cluster_file(unsigned uid);

// Files as this process sees them.
ReadOptions read_options(std::vector<std::string> sets);

// In line order on stderr, in colour on a terminal; notes and warnings only when they are wanted.
void print_findings(const std::vector<Finding>& findings, const CommonOptions& common);

}  // namespace muster
