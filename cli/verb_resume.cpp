// `muster resume JOB`: a finished job is queued again and continues from a checkpoint.
#include <memory>

#include "cli/document.h"
#include "cli/ensure_controller.h"
#include "cli/find_job.h"
#include "cli/follow.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

struct ResumeOptions {
  std::string job;
  std::optional<std::int64_t> from_step;
  bool follow = false;
};

// Only what comes now: the attempts that are on record have been read or can be.
int follow_from_here(const Home& home, const FoundJob& job, const CommonOptions& common) {
  FollowRequest request;
  request.job = job.id();
  request.logs.first_attempt = AttemptId{job.row.attempts};
  request.several_ranks = true;
  return follow_job(home, request, common).exit_code;
}

int resume_job(const ResumeOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto found = open_job(home, options.job);
  if (!found) return without_job(home, found.error(), common);
  const auto answer = ask_controller(home, Resume{found->id(), options.from_step}, common);
  if (!answer) {
    complain("cannot resume: " + answer.error().message, common);
    return static_cast<int>(ExitCode::internal);
  }
  if (const auto* no = std::get_if<Refused>(&*answer)) {
    complain(no->message, common);
    return no->exit_code;
  }
  const auto* yes = std::get_if<Accepted>(&*answer);
  if (yes != nullptr && !yes->note.empty()) notice(yes->note, common);
  notice("job " + found->row.name + " is queued again", common);
  if (options.follow) return follow_from_here(home, *found, common);
  return wants_table(common) ? 0 : show_job(found->row.name, common);
}

}  // namespace

void add_resume(CommandLine& line) {
  line.verb(
      {"resume", "Queue a finished job again, from its newest checkpoint"}, [](Arguments& of) {
        auto options = std::make_shared<ResumeOptions>();
        of.argument("JOB", options->job, "Job name, or the beginning of one");
        of.option("--from", options->from_step, "Go back to this step's checkpoint");
        of.flag("-f,--follow", options->follow, "Show its output to the end");
        return [options](const CommonOptions& common) { return resume_job(*options, common); };
      });
}

}  // namespace muster
