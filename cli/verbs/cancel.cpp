// `muster cancel JOB`: success means that every rank is confirmed stopped.
#include <memory>

#include "cli/client/find.h"
#include "cli/client/follow.h"
#include "cli/client/start.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/model/exit_code.h"

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
  constexpr int internal = static_cast<int>(ExitCode::internal);
  const Home home = Home::from_environment();
  const auto found = open_job(home, options.job);
  if (!found) return without_job(home, found.error(), common);
  const JobId job = found->id();
  const auto answer = ask_controller(home, Cancel{job, options.grace}, common);
  if (!answer) return complain("cannot cancel: " + answer.error().message, internal, common);
  if (const auto* no = std::get_if<Refused>(&*answer)) {
    return complain(no->message, no->exit_code, common);
  }
  if (!options.no_wait) return wait_for_end(home, job, common);
  notice("cancelling " + job.value + "; see: muster status " + job.value, common);
  return wants_table(common) ? 0 : show_job(job.value, common);
}

void add_cancel(CommandLine& line) {
  line.verb(
      {"cancel", "Stop a job and wait until every rank is confirmed stopped"}, [](Arguments& of) {
        auto options = std::make_shared<CancelOptions>();
        auto wait = std::make_shared<bool>();
        of.argument("JOB", options->job, "Job name, or the beginning of one");
        of.offer("JOB", {.words = {}, .unfinished_jobs = true});
        of.option("--grace", options->grace, "Time between the stop signal and SIGKILL");
        of.flag("--wait", *wait, "Wait for the proof (the default)");
        of.flag("--no-wait", options->no_wait, "Return when the job has been asked to stop");
        return
            [options, wait](const CommonOptions& common) { return cancel_job(*options, common); };
      });
}

}  // namespace muster
