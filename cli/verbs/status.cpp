// `muster status [JOB]`: without a job the newest ones and the nodes, with one everything about it.
// Reads the store; only the nodes' links are asked from a controller, and only if one runs. For
// unfinished jobs one is started (client/start.h).
#include <poll.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/client/follow.h"
#include "cli/client/log_follower.h"
#include "cli/client/start.h"
#include "cli/client/targets.h"
#include "cli/job/node_table.h"
#include "cli/job/report.h"
#include "cli/terminal/document.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/progress_line.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/explain/summary.h"
#include "scheduler/model/names.h"
#include "scheduler/state/resume_point.h"
#include "scheduler/state/sentences.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr int newest_jobs = 20;
constexpr int redraw_ms = 1000;

std::string overview_text(const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto store = or_end(Store::open(home.root, Store::Mode::read_only));
  JobFilter filter;
  filter.limit = newest_jobs;
  const auto rows = or_end(store->jobs(filter));
  serve_unfinished(home, *store, rows, common);
  const std::vector<NodeLine> nodes = nodes_if_running(home);
  if (wants_table(common)) {
    if (rows.empty()) notice("no jobs yet; start one with: muster run FILE", common);
    std::string text = rows.empty() ? "" : job_table_text(*store, rows, common);
    if (!nodes.empty()) text += "\n" + table_of_nodes(nodes).text(common);
    return text;
  }
  const Document out{{"jobs", list_of(rows, row_document)}, {"nodes", nodes_document(nodes)}};
  return or_end(document_text(out, common), usage_error);
}

constexpr int key_columns = 12;

std::string line(const std::string& key, const std::string& value) {
  if (value.empty()) return "";
  const int blanks = std::max(1, key_columns - static_cast<int>(key.size()));
  return key + std::string(static_cast<std::size_t>(blanks), ' ') + one_line(value) + "\n";
}

std::string moment(const std::optional<Time>& time, Time now) {
  return time ? local_text(*time) + " (" + ago_text(*time, now) + ")" : "";
}

// The newest lines of metrics, as the progress line of `run` shows them: not each has all.
std::string progress(const JobRow& row, const Home& home) {
  if (row.ended_at || row.attempts == 0) return "";
  const auto file = home.metrics(JobId{row.name}, AttemptId{row.attempts - 1});
  ProgressNumbers numbers;
  std::istringstream lines(last_lines_of_file(file, 20));
  for (std::string line; std::getline(lines, line);) read_metrics_line(line, numbers);
  const int width = terminal_width(Stream::out) - key_columns;
  return numbers.step || numbers.loss ? progress_line("", numbers, std::nullopt, width) : "";
}

// What is wrong with the pace of a running attempt.
std::string stall(const JobRow& row, const JobSummary& job) {
  if (row.ended_at || job.attempts.empty() || !job.attempts.back().stall) return "";
  const StallSeen& seen = *job.attempts.back().stall;
  return std::string(word(seen.stall)) + ": " + seen.sentence;
}

// What its nodes fetch before the ranks can start.
std::string preparing(const JobRow& row, const JobSummary& job) {
  if (row.ended_at || job.attempts.empty()) return "";
  return list_text(job.attempts.back().preparing);
}

// Nodes of the job from which nothing is heard, long before they count as lost.
std::string silent_nodes(const JobRow& row, const Home& home) {
  if (row.ended_at || row.attempts == 0) return "";
  std::string text;
  for (const NodeLine& node : nodes_if_running(home)) {
    if (node.silent && node.owner == row.name) {
      text += line("silent", node.node + ": " + silence_text(node));
    }
  }
  return text;
}

std::string facts(const JobRow& row, const JobSummary& job, const Home& home, Time now) {
  std::string text = line("job", row.name);
  if (row.display_name != row.name) text += line("display name", row.display_name);
  text += line("state",
               row.state + (row.exit_code ? ", exit code " + std::to_string(*row.exit_code) : ""));
  text += line("reason", row.reason);
  text += line("compute", row.compute);
  if (is_elastic_row(row)) text += line("nodes", node_range_text(row));
  text += line("experiment", row.experiment);
  text += line("submitted", moment(row.submitted_at, now) + " by " + row.user);
  text += line("started", moment(row.started_at, now));
  text += line("ended", moment(row.ended_at, now));
  if (row.step) text += line("step", std::to_string(*row.step));
  text += line("progress", progress(row, home));
  text += line("preparing", preparing(row, job));
  text += line("pace", stall(row, job));
  text += silent_nodes(row, home);
  if (job.checkpoint) {
    text += line("checkpoint", step_text(*job.checkpoint) + " in " + job.checkpoint->directory);
  }
  return text + line("directory", home.job(JobId{row.name}).string());
}

std::string verdict(const AttemptSummary& attempt) {
  if (attempt.abandoned) return "given up: " + *attempt.abandoned;
  if (!attempt.cause) return "running";
  if (attempt.cause->succeeded) return "succeeded";
  return std::string(word(attempt.cause->failure_class)) + ": " + attempt.cause->sentence;
}

std::string attempts_text(const JobSummary& job, Time now, const CommonOptions& common) {
  if (job.attempts.empty()) return "";
  Table table({"ATTEMPT", "NODES", "RAN FOR", "FROM STEP", "LAST STEP", "CHECKPOINT", "VERDICT"});
  for (const AttemptSummary& attempt : job.attempts) {
    const std::string ran =
        attempt.started ? elapsed_text(attempt.ended.value_or(now) - *attempt.started) : "";
    table.add(
        {std::to_string(attempt.number.value), joined(attempt.nodes, ","), ran,
         number_cell(attempt.resumed_from_step), number_cell(attempt.last_step),
         attempt.newest_checkpoint ? number_cell(attempt.newest_checkpoint->known_step()) : "",
         verdict(attempt)});
  }
  return "\n" + table.text(common);
}

std::string job_text(const std::string& typed, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto found = job_or_end(home, typed);
  const auto history = or_end(history_of(found));
  serve_unfinished(home, *found.store, {found.row}, common);
  const std::string directory = home.job(found.id()).string();
  const auto kept = or_end(kept_report(found));
  if (!wants_table(common)) {
    const Document report = kept ? *kept : report_document(found.row, history, directory);
    return or_end(document_text(report, common), usage_error);
  }
  if (kept) notice(why_no_history(found), common);
  const Time now = wall_clock_now();
  const JobSummary job = summary_of(found.row, history);
  return facts(found.row, job, home, now) + attempts_text(job, now, common);
}

std::string status_text(const std::string& job, const CommonOptions& common) {
  return job.empty() ? overview_text(common) : job_text(job, common);
}

struct StatusOptions {
  std::string job;
  bool watch = false;
  std::string profile;
};

bool has_ended(const std::string& job) {
  const auto found = open_job(Home::from_environment(), job);
  return found && found->row.ended_at;
}

// Until the job has ended, or Ctrl-C.
int watch_status(const std::string& job, const CommonOptions& common) {
  if (!can_redraw(Stream::out) || !wants_table(common)) {
    throw VerbEnd(usage_error,
                  "--watch draws tables on a terminal; elsewhere use `muster logs -f`");
  }
  InterruptWatch interrupts;
  while (true) {
    const bool last = !job.empty() && has_ended(job);
    const std::string text = status_text(job, common);
    const int rows = terminal_height(Stream::out);
    write_all(Stream::out, "\x1b[H\x1b[2J" + screenful(text, rows, terminal_width(Stream::out)));
    if (last) return 0;
    ::poll(nullptr, 0, redraw_ms);
    if (interrupts.take()) return interrupted_exit_code;
  }
}

int show_status(const StatusOptions& options, const CommonOptions& common) {
  or_end(check_named_files(common), invalid_file);
  const int code = options.watch ? watch_status(options.job, common) : 0;
  if (!options.watch) write_all(Stream::out, status_text(options.job, common));
  if (code != 0 || options.job.empty() || options.profile.empty()) return code;
  return report_launch(job_or_end(Home::from_environment(), options.job), options.profile, common);
}

}  // namespace

int show_job(const std::string& typed, const CommonOptions& common) {
  write_all(Stream::out, job_text(typed, common));
  return 0;
}

void add_status(CommandLine& line) {
  const VerbTexts texts{"status", "Show the newest jobs and the nodes, or one job in full"};
  line.verb<StatusOptions>(texts, show_status, [](Arguments& of, StatusOptions& options) {
    of.optional_argument("JOB", options.job, "Job name, or the beginning of one");
    of.flag("-w,--watch", options.watch, "Refresh each second, to the end of the job");
    add_profile_option(of, options.profile);
  });
}

}  // namespace muster
