// The filters of `muster list` and `muster job list`, and the store's filter made from them.
#pragma once

#include <optional>
#include <string>

#include "cli/grammar/command_line.h"
#include "launcher/controller/store/store.h"
#include "scheduler/text/duration.h"

namespace muster {

struct ListOptions {
  std::optional<std::int64_t> max_results;
  bool all_results = false;
  bool archived_only = false;
  bool include_archived = false;
  std::string status;
  std::string compute;
  std::string node;
  std::string experiment;
  std::string tag;
  std::string user;
  std::optional<Milliseconds> since;
  std::string parent;
};

void declare_list_options(Arguments& of, ListOptions& options);
JobFilter filter_of(const ListOptions& options, Time now);

}  // namespace muster
