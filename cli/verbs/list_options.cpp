#include "cli/verbs/list_options.h"

#include <algorithm>
#include <limits>

namespace muster {

void declare_list_options(Arguments& of, ListOptions& options) {
  of.option("-r,--max-results", options.max_results, "At most this many (default 50)");
  of.flag("--all-results", options.all_results, "All jobs");
  of.flag("--archived-only", options.archived_only, "Only archived jobs");
  of.flag("--include-archived", options.include_archived, "Archived jobs too");
  of.choice("--status", options.status,
            {"NotStarted", "Queued", "Preparing", "Provisioning", "Starting", "Running",
             "Finalizing", "Completed", "Failed", "Canceled"},
            "Only jobs in this state");
  of.option("--compute", options.compute, "Only jobs of this compute target");
  of.option("--node", options.node, "Only jobs whose newest attempt ran on this node");
  of.option("--experiment", options.experiment, "Only jobs of this experiment");
  of.option("--tag", options.tag, "Only jobs with this tag: key or key=value");
  of.option("--user", options.user, "Only jobs of this user");
  of.option("--since", options.since, "Only jobs submitted within this time");
  of.option("-p,--parent-job-name", options.parent, "Only the children of this job");
}

JobFilter filter_of(const ListOptions& options, Time now) {
  JobFilter filter;
  if (options.max_results) {
    const std::int64_t limit = std::numeric_limits<int>::max();
    filter.limit = static_cast<int>(std::min(*options.max_results, limit));
  }
  if (options.all_results) filter.limit.reset();
  filter.archived = options.archived_only;
  filter.include_archived = options.include_archived;
  filter.state = options.status;
  filter.compute = options.compute;
  filter.node = options.node;
  filter.experiment = options.experiment;
  filter.tag = options.tag;
  filter.user = options.user;
  if (options.since) filter.since = now - *options.since;
  // No job has children here: sweeps and pipelines, whose steps they would be, are not run.
  if (!options.parent.empty()) filter.limit = 0;
  return filter;
}

}  // namespace muster
