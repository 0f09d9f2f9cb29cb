// A job file as the submitting machine sees it: read, checked against the known compute targets,
// every finding collected. Reads files; changes and prints nothing, so that `validate`, `plan` and
// `run` say the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/client/targets.h"
#include "cli/data/stores.h"
#include "cli/terminal/common_options.h"
#include "scheduler/model/compute.h"
#include "templates/parse_file.h"

namespace muster {

struct CheckedJob {
  JobFile file;
  std::string text;  // as read; empty for a file that could not be
  std::optional<ComputeTarget> target;
  ImageSettings images;  // of the cluster files
  std::optional<KnownStores> stores;  // where the target is known
  JobData data;                       // that inputs have in stores, not listed yet
  bool can_run = false;  // a command job without errors and unresolved items
};

struct CheckRequest {
  std::string path;  // `-`: standard input
  std::vector<std::string> sets;
  bool for_running = true;         // also what this version cannot do, and the target
  bool accept_unresolved = false;  // `--skip-validation`
  bool accept_resources = false;   // a file that describes one is fine as it is
};

// Prints the findings, and ends the verb where the job cannot run.
void require_runnable(const CheckedJob& job, const CommonOptions& common);

Result<CheckedJob> check_job(const CheckRequest& request, const CommonOptions& common);

}  // namespace muster
