// `muster wait JOB…`: returns when they have all ended, with what they ended with. Reads the store;
// for unfinished jobs a controller is started where none lives (client/start.h). `muster cancel
// JOB`: success means that every rank is confirmed stopped.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/client/follow.h"
#include "cli/client/start.h"
#include "cli/job/report.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr int wait_is_over = 124;           // as timeout(1) has it
constexpr Milliseconds read_pause{100};     // soon enough for a person, little to read
constexpr Milliseconds serve_pause{30000};  // most controllers are kept alive by their supervisors

struct WaitOptions {
  std::vector<std::string> jobs;
  std::optional<Milliseconds> timeout;
};

// The rows hold nothing but names until they are first read.
struct Awaited {
  std::unique_ptr<Store> store;
  std::vector<JobRow> rows;  // in the order given

  std::vector<std::string> unfinished() const {
    std::vector<std::string> names;
    for (const JobRow& row : rows) {
      if (!row.ended_at) names.push_back(row.name);
    }
    return names;
  }
  // The first that is not 0. A job whose code was not kept has not succeeded for sure.
  int exit_code() const {
    for (const JobRow& row : rows) {
      if (row.exit_code != 0) return row.exit_code.value_or(internal_error);
    }
    return 0;
  }
};

// Reads those again that had not ended, and tells the end of those that have.
void read_again(Awaited& awaited, const CommonOptions& common) {
  for (JobRow& row : awaited.rows) {
    if (row.ended_at) continue;
    auto now = or_end(awaited.store->job(JobId{row.name}), internal_error, "cannot wait: ");
    if (!now) {
      throw VerbEnd(internal_error,
                    "cannot wait: job " + row.name + " is no longer in the state directory");
    }
    row = std::move(*now);
    if (row.ended_at) notice("job " + row.name + " " + row.state + ": " + row.reason, common);
  }
}

int report_rows(const Awaited& awaited, int code, const CommonOptions& common) {
  const int printed = print_result(list_of(awaited.rows, row_document), "", common);
  return code != 0 ? code : printed;
}

int wait_for(Awaited& awaited, const Home& home, std::optional<Milliseconds> timeout,
             const CommonOptions& common) {
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  Milliseconds served_at = -serve_pause;
  CommonOptions told = common;
  InterruptWatch interrupts;
  while (true) {
    read_again(awaited, common);
    const auto left = awaited.unfinished();
    if (left.empty()) return report_rows(awaited, awaited.exit_code(), common);
    const auto elapsed = std::chrono::duration_cast<Milliseconds>(Clock::now() - begun);
    if (timeout && elapsed >= *timeout) {
      print_error("not ended within " + written_duration(*timeout) + ": " + joined(left), common);
      return report_rows(awaited, wait_is_over, common);
    }
    if (interrupts.take()) {
      notice("not ended: " + joined(left) + "; jobs continue without being waited for", common);
      return interrupted_exit_code;
    }
    if (elapsed - served_at >= serve_pause) {
      // One that holds the lock and does not answer is not waited for: the time runs.
      if (!is_locked(home.lock())) serve_unfinished(home, *awaited.store, awaited.rows, told);
      served_at = elapsed;
      told.only_show_errors = true;  // once is enough for a notice
    }
    const Milliseconds pause = timeout ? std::min(read_pause, *timeout - elapsed) : read_pause;
    ::poll(nullptr, 0, static_cast<int>(pause.count()));
  }
}

int wait_for_jobs(const WaitOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  Awaited awaited;
  for (const std::string& typed : options.jobs) {
    auto found = job_or_end(home, typed);
    awaited.store = std::move(found.store);
    const bool is_new = std::ranges::count(awaited.rows, found.row.name, &JobRow::name) == 0;
    if (is_new) awaited.rows.emplace_back().name = found.row.name;
  }
  return wait_for(awaited, home, options.timeout, common);
}

// ---- cancel

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

void add_wait(CommandLine& line) {
  VerbTexts texts{"wait", "Wait until jobs have ended, and return their exit code"};
  texts.footer =
      "Waits for all jobs that are named. The exit code is the first one in that order that is\n"
      "not 0, or 124 when the time is over before all have ended; the jobs continue.";
  line.verb<WaitOptions>(texts, wait_for_jobs, [](Arguments& of, WaitOptions& options) {
    of.arguments("JOB", options.jobs, "Job names, or beginnings of them");
    of.offer("JOB", {.words = {}, .unfinished_jobs = true});
    of.option("--timeout", options.timeout, "Wait at most this long (default: to the end)");
  });
}

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
        of.job(options.job, true);
        declare_cancel(of, options, "Wait until every rank is confirmed stopped (the default)");
      });
}

}  // namespace muster
