// `muster resume JOB`: a finished job is queued again and continues from a checkpoint.
#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include "cli/client/find.h"
#include "cli/client/follow.h"
#include "cli/client/start.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

constexpr int wrong_usage = 2;
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
    complain("--from: expected a step or `certified`, got " + options.from, common);
    return wrong_usage;
  }
  const Home home = Home::from_environment();
  const auto found = open_job(home, options.job);
  if (!found) return without_job(home, found.error(), common);
  const auto answer = ask_controller(home, Resume{found->id(), from_step, from_certified}, common);
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
        of.option(
            "--from", options->from,
            "Go back to this step's checkpoint, or to the newest that is `certified`");
        of.flag("-f,--follow", options->follow, "Show its output to the end");
        return [options](const CommonOptions& common) { return resume_job(*options, common); };
      });
}

}  // namespace muster
