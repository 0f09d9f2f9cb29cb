// A job file for Azure ML: what its own client would refuse, and the file written so that it does
// not. Pure.
#pragma once

#include <string>
#include <vector>

#include "templates/job/job_file.h"

namespace muster {

// Beside what muster itself says of the file; in line order. Of a command job; of other files only
// the `muster` map.
std::vector<Finding> azure_findings(const JobFile& job);

// Of a tree, whatever it was made from.
std::vector<Finding> azure_refusals(const YamlNode& root, FileKind kind);

struct AzureFile {
  std::string text;               // YAML; comments and anchors are gone
  std::vector<Finding> findings;  // what Azure ML would refuse in it all the same
};

// `--set` is applied, the `muster` map becomes `muster.*` strings among the properties, and old
// forms, durations and nulls are written as Azure ML takes them. Empty for a file that did not
// parse.
AzureFile render_for_azure(const JobFile& job);

}  // namespace muster
