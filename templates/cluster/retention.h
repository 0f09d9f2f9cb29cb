// The user's retention.yml: how long muster keeps what it made. Durations, or `never` for what is
// not to be removed:
//
//   journal: 90d   job_folders: never   blobs: 3d   binaries: 3d   run_folders: 30d
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/retention.h"
#include "templates/yaml/finding.h"

namespace muster {

struct RetentionFile {
  RetentionLimits keep = usual_retention;
  std::vector<Finding> findings;
};

RetentionFile read_retention_file(const std::string& path, std::string_view text);

}  // namespace muster
