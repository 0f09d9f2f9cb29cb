// `muster run FILE`: submit, follow, return what the job returned.
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/client/follow.h"
#include "cli/job/plan.h"
#include "cli/job/report.h"
#include "cli/job/submission.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/wire/record_codec.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

FollowRequest follow_request(const JobId& job, const JobSpec& spec, const CommonOptions& common) {
  FollowRequest request;
  request.job = job;
  request.ranks_to = wants_table(common) ? Stream::out : Stream::err;
  request.several_ranks = rank_count(spec, {}) != 1;
  request.may_cancel = true;
  return request;
}

// The report is the result: one object, whatever happened.
int print_report(const Home& home, const JobId& job, const CommonOptions& common) {
  const auto found = open_job(home, job.value);
  if (!found) return print_error(found.error().message, internal_error, common);
  const auto history = history_of(*found);
  if (!history) return print_error(history.error().message, internal_error, common);
  return print_document(report_document(found->row, *history, home.job(job).string()), common);
}

int print_launch(const Home& home, const JobId& job, const RunOptions& options,
                 const CommonOptions& common) {
  if (options.profile.empty()) return 0;
  const auto found = open_job(home, job.value);
  if (found) return report_launch(*found, options.profile, common);
  return print_error(found.error().message, internal_error, common);
}

// A job that was never queued has a report too, so that a pipeline can rely on one.
void print_refusal(const SubmitRequest& request, int exit_code, const CommonOptions& common) {
  if (wants_table(common)) return;
  Document out;
  out["name"] = request.name ? Document(*request.name) : Document(nullptr);
  out["status"] = "NotStarted";
  out["exit_code"] = exit_code;
  out["reason"] = exit_code_meaning(static_cast<ExitCode>(exit_code));
  out["attempts"] = Document::array();
  print_document(out, common);
}

// The end itself has been told as an event, unless only errors are wanted.
void say_end(const Home& home, const Ended& ended, const CommonOptions& common) {
  if (ended.exit_code == 0) return;
  const auto found = open_job(home, ended.job.value);
  const auto records = found ? found->store->records_of(ended.job) : found.error();
  const std::string missing = records ? missing_program_text(*records, find_here) : "";
  if (!missing.empty()) print_error(missing, common);
  if (common.only_show_errors) {
    print_error("job " + ended.job.value + " " + ended.state + ": " + ended.reason, common);
  } else {
    notice("what happened and why: muster explain " + ended.job.value, common);
  }
}

// The job has been queued whatever happens here: a file that cannot be written is only told.
void save_spec(const RunOptions& options, const JobSpec& spec, const CommonOptions& common) {
  if (options.save_as.empty()) return;
  CommonOptions yaml;
  yaml.output = OutputFormat::yaml;
  const auto text = document_text(Document::parse(encode_spec(spec), nullptr, false), yaml);
  std::ofstream file(options.save_as, std::ios::binary | std::ios::trunc);
  if (text) file << *text;
  file.close();
  if (!file)
    print_error("cannot write " + options.save_as + "; the job is queued all the same", common);
}

Submitted submitted(const Home& home, const RunOptions& options, const CommonOptions& common) {
  try {
    Submitted done = submit_job(home, options.submit, common);
    save_spec(options, done.spec, common);
    return done;
  } catch (const VerbEnd& refused) {
    const std::string why = refused.what();
    if (!why.empty()) print_error(why, common);
    print_refusal(options.submit, refused.exit_code, common);
    throw VerbEnd(refused.exit_code, "");
  }
}

void declare_submission(Arguments& of, RunOptions& options) {
  of.argument("FILE", options.submit.check.path, "Job file (YAML), - for standard input");
  of.settings(options.submit.check.sets, "Change one key of the file: a.b=value (repeatable)");
  of.option("--name", options.submit.name, "Name of the job");
}

}  // namespace

int submit_only(const RunOptions& options, const CommonOptions& common) {
  const JobId job = submitted(Home::from_environment(), options, common).job;
  return print_result(Document{{"name", job.value}}, job.value + "\n", common);
}

int run_job(const RunOptions& options, const CommonOptions& common) {
  if (options.detach) return submit_only(options, common);
  const Home home = Home::from_environment();
  const auto [job, spec] = submitted(home, options, common);
  notice("job " + job.value, common);
  const FollowRequest follow = follow_request(job, spec, common);
  const Followed followed = follow_job(home, follow, common);
  if (followed.ended) say_end(home, *followed.ended, common);
  int printed = print_launch(home, job, options, common);
  if (!wants_table(common)) printed = print_report(home, job, common);
  return followed.exit_code != 0 ? followed.exit_code : printed;
}

void add_run(CommandLine& line) {
  line.verb<RunOptions>({"run", "Submit a job, show its output, return its exit code"}, run_job,
                        [](Arguments& of, RunOptions& options) {
                          declare_submission(of, options);
                          of.flag("-d,--detach", options.detach, "Only submit, as `muster submit`");
                          add_profile_option(of, options.profile);
                        });
}

void add_submit(CommandLine& line) {
  line.verb<RunOptions>({"submit", "Queue a job and print its name"}, submit_only,
                        declare_submission);
}

}  // namespace muster
