// `muster resume JOB`: a finished job is queued again and continues from a checkpoint.
#include <charconv>
#include <optional>
#include <string>

#include "cli/client/find.h"
#include "cli/client/follow.h"
#include "cli/client/start.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"

namespace muster {

namespace {

constexpr const char* certified = "certified";

struct ResumeOptions {
  std::string job;
  std::string from;  // a step, or `certified`; empty: the newest checkpoint
  bool follow = false;
};

std::optional<std::int64_t> step_in(const std::string& text) {
  std::int64_t step = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, step);
  const bool is_step = error == std::errc{} && stop == end && step >= 0;
  return is_step ? std::optional(step) : std::nullopt;
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
  const std::optional<std::int64_t> from_step = step_in(options.from);
  const bool from_certified = options.from == certified;
  if (!options.from.empty() && !from_step && !from_certified) {
    return print_error("--from: expected a step or `certified`, got " + options.from, usage_error,
                       common);
  }
  const Home home = Home::from_environment();
  const auto found = open_job(home, options.job);
  if (!found) return without_job(home, found.error(), common);
  const Resume request{found->id(), from_step, from_certified};
  int refused = 0;
  const auto accepted = ask_accepted(home, request, "cannot resume: ", refused, common);
  if (!accepted) return refused;
  if (!accepted->note.empty()) notice(accepted->note, common);
  notice("job " + found->row.name + " is queued again", common);
  if (options.follow) return follow_from_here(home, *found, common);
  return wants_table(common) ? 0 : show_job(found->row.name, common);
}

}  // namespace

void add_resume(CommandLine& line) {
  const VerbTexts texts{"resume", "Queue an ended job again, from its newest checkpoint"};
  line.verb<ResumeOptions>(texts, resume_job, [](Arguments& of, ResumeOptions& options) {
    of.argument("JOB", options.job, "Job name, or the beginning of one");
    of.option("--from", options.from,
              "Go back to this step's checkpoint, or to the newest that is `certified`");
    of.flag("-f,--follow", options.follow, "Show its output to the end");
  });
}

}  // namespace muster
