// Changing the tags of a job, finished or not: they live in the store's derived row, where the
// controller leaves them alone.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "scheduler/model/result.h"

namespace muster {

struct TagUpdate {
  std::vector<std::string> set;      // `tags.key=value`
  std::vector<std::string> removed;  // `tags.key`
};

// The tags (a JSON object as text) with the update applied.
Result<std::string> updated_tags(const std::string& tags, const TagUpdate& update);

int update_tags(const std::string& typed, const TagUpdate& update, const CommonOptions& common);

}  // namespace muster
