// `muster resume JOB`: a finished job is queued again and continues from a checkpoint.
#include <filesystem>
#include <optional>
#include <string>

#include "cli/checkpoint/subject.h"
#include "cli/client/find.h"
#include "cli/client/follow.h"
#include "cli/client/start.h"
#include "cli/data/stores.h"
#include "cli/job/submission.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/explain/summary.h"
#include "scheduler/restart/policy.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr const char* certified = "certified";

struct ResumeOptions {
  std::string job;
  std::optional<std::string> from;  // a step, or `certified`; absent: the newest checkpoint
  bool follow = false;
  bool upload = false;
};

std::optional<std::int64_t> step_in(const std::string& text) {
  const auto step = read_integer(text);
  return step && *step >= 0 ? step : std::nullopt;
}

// As far as this machine sees the job's checkpoints; the rest its nodes and the controller say.
// Step 0 is the beginning.
Status check_resume_step(const Home& home, const FoundJob& job, std::int64_t step) {
  const auto records = job.store->records_of(job.id());
  const auto request = records ? resume_request(*records, step, false) : records.error();
  if (!request || step == 0) return Done{};
  if (const auto foreign = foreign_subject(home, job.row.name)) {
    if (foreign_checkpoint_of(foreign->roots, foreign->settings, step)) return Done{};
    return Error{"job " + job.row.name + " has not one complete checkpoint of step " +
                 std::to_string(step) + ": muster checkpoint list " + job.row.name +
                 " shows which there are"};
  }
  const JobSummary summary = summarize(*records);
  if (summary.checkpoint && summary.checkpoint->is_foreign()) return Done{};
  const std::string newest = last_checkpoint_directory(summary);
  if (newest.empty() && request->spec.muster.checkpoint_path.empty()) {
    return Error{"job " + job.row.name + " has committed no checkpoint yet"};
  }
  const std::string root = std::filesystem::path(newest).parent_path().string();
  std::error_code ignored;
  const bool is_here = seen_by_nodes(root, request->target);
  if (!is_here || !std::filesystem::is_directory(root, ignored)) return Done{};
  return check_usable_step(root, static_cast<std::uint64_t>(step));
}

// Only what comes now: the attempts that are on record have been read or can be.
int follow_from_here(const Home& home, const FoundJob& job, const CommonOptions& common) {
  FollowRequest request;
  request.job = job.id();
  request.logs.first_attempt = AttemptId{job.row.attempts};
  request.several_ranks = true;
  return follow_job(home, request, common).exit_code;
}

int resume_job(const ResumeOptions& options, const CommonOptions& common) {
  const std::optional<std::int64_t> from_step =
      options.from ? step_in(*options.from) : std::nullopt;
  const bool from_certified = options.from == certified;
  if (options.from && !from_step && !from_certified) {
    throw VerbEnd(usage_error, "--from: expected a step or `certified`, got " +
                                   (options.from->empty() ? "nothing" : *options.from));
  }
  const Home home = Home::from_environment();
  const auto found = job_or_end(home, options.job);
  if (options.upload) {
    if (!found.row.ended_at) {
      throw VerbEnd(plain_failure, "job " + found.row.name + " has not ended");
    }
    // Half an output is no version of anything.
    const bool has_succeeded =
        found.row.exit_code == 0 || found.row.reason.starts_with("the ranks succeeded");
    or_end(finish_outputs(home, found.id(), has_succeeded), plain_failure,
           "cannot copy the outputs: ");
    notice("the outputs of " + found.row.name + " are in their stores", common);
    return 0;
  }
  if (from_step) or_end(check_resume_step(home, found, *from_step), no_such_job, "cannot resume: ");
  const Resume request{found.id(), from_step, from_certified};
  const Accepted accepted = accepted_or_end(home, request, "cannot resume: ", common);
  if (!accepted.note.empty()) notice(accepted.note, common);
  notice("job " + found.row.name + " is queued again", common);
  if (options.follow) return follow_from_here(home, found, common);
  return wants_table(common) ? 0 : show_job(found.row.name, common);
}

}  // namespace

void add_resume(CommandLine& line) {
  const VerbTexts texts{"resume", "Queue an ended job again, from its newest checkpoint"};
  line.verb<ResumeOptions>(texts, resume_job, [](Arguments& of, ResumeOptions& options) {
    of.job(options.job);
    of.option("--from", options.from,
              "Go back to this step's checkpoint, or to the newest that is `certified`");
    of.flag("--upload", options.upload, "Only copy its outputs to their stores once more");
    of.flag("-f,--follow", options.follow, "Show its output to the end");
  });
}

}  // namespace muster
