// `muster list`: the newest jobs, filtered. Reads the store; for unfinished jobs a
// controller is started (client/start.h).
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/client/start.h"
#include "cli/client/targets.h"
#include "cli/job/report.h"
#include "cli/terminal/document.h"
#include "cli/verbs/verbs.h"
#include "launcher/controller/store/home.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

JobFilter filter_of(const ListOptions& options, Time now) {
  JobFilter filter = options;
  if (options.max_results) {
    const std::int64_t limit = std::numeric_limits<int>::max();
    filter.limit = static_cast<int>(std::min(*options.max_results, limit));
  }
  if (options.all_results) filter.limit.reset();
  if (options.within) filter.since = now - *options.within;
  // No job has children here: sweeps and pipelines, whose steps they would be, are not run.
  if (!options.parent.empty()) filter.limit = 0;
  return filter;
}

}  // namespace

int list_jobs(const ListOptions& options, const CommonOptions& common) {
  or_end(check_named_files(common), invalid_file);
  const Home home = Home::from_environment();
  const auto store = or_end(Store::open(home.root, Store::Mode::read_only));
  const auto rows = or_end(store->jobs(filter_of(options, wall_clock_now())));
  serve_unfinished(home, *store, rows, common);
  const bool has_table = wants_table(common) && !rows.empty();
  return print_result(list_of(rows, row_document),
                      has_table ? job_table_text(*store, rows, common) : "", common,
                      "no jobs match");
}

void add_list(CommandLine& line) {
  line.verb<ListOptions>({"list", "List jobs, the newest first"}, list_jobs, declare_list);
}

void declare_list(Arguments& of, ListOptions& options) {
  of.option("-r,--max-results", options.max_results, "At most this many (default 50)");
  of.flag("--all-results", options.all_results, "All jobs");
  of.flag("--archived-only", options.archived, "Only archived jobs");
  of.flag("--include-archived", options.include_archived, "Archived jobs too");
  of.choice("--status", options.state,
            {"NotStarted", "Queued", "Preparing", "Provisioning", "Starting", "Running",
             "Finalizing", "Completed", "Failed", "Canceled"},
            "Only jobs in this state");
  of.option("--compute", options.compute, "Only jobs of this compute target");
  of.option("--node", options.node, "Only jobs whose newest attempt ran on this node");
  of.option("--experiment", options.experiment, "Only jobs of this experiment");
  of.option("--tag", options.tag, "Only jobs with this tag: key or key=value");
  of.option("--user", options.user, "Only jobs of this user");
  of.option("--since", options.within, "Only jobs submitted within this time");
  of.option("-p,--parent-job-name", options.parent, "Only the children of this job");
}

}  // namespace muster
