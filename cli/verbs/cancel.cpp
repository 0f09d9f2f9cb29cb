// `muster cancel JOB`: success means that every rank is confirmed stopped.
#include "cli/client/find.h"
#include "cli/client/follow.h"
#include "cli/client/start.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"

namespace muster {

namespace {

// No output of ranks, only what happens to them.
int wait_for_end(const Home& home, const JobId& job, const CommonOptions& common) {
  FollowRequest request;
  request.job = job;
  request.logs.ranks.emplace();
  request.on_detach = "cancelling continues; see: muster status " + job.value;
  const Followed followed = follow_job(home, request, common);
  if (!followed.ended) return followed.exit_code;
  notice("job " + job.value + " " + followed.ended->state + ": " + followed.ended->reason, common);
  return wants_table(common) ? 0 : show_job(job.value, common);
}

}  // namespace

int cancel_job(const CancelOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const JobId job = job_or_end(home, options.job).id();
  accepted_or_end(home, Cancel{job, options.grace}, "cannot cancel: ", common);
  if (!options.no_wait) return wait_for_end(home, job, common);
  notice("cancelling " + job.value + "; see: muster status " + job.value, common);
  return wants_table(common) ? 0 : show_job(job.value, common);
}

void declare_cancel(Arguments& of, CancelOptions& options, const std::string& of_wait) {
  of.option("--grace", options.grace, "Time between the stop signal and SIGKILL");
  of.flag("--wait", options.wait, of_wait);
  of.flag("--no-wait", options.no_wait, "Return when the job has been asked to stop");
}

void add_cancel(CommandLine& line) {
  line.verb<CancelOptions>(
      {"cancel", "Stop a job and wait until every rank is confirmed stopped"}, cancel_job,
      [](Arguments& of, CancelOptions& options) {
        of.argument("JOB", options.job, "Job name, or the beginning of one");
        of.offer("JOB", {.words = {}, .unfinished_jobs = true});
        declare_cancel(of, options, "Wait until every rank is confirmed stopped (the default)");
      });
}

}  // namespace muster
