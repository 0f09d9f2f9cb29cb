// `muster logs JOB`: what its ranks said, read from the log files; with -f to the end of the job.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/client/follow.h"
#include "cli/client/log_follower.h"
#include "cli/job/plan.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/explain/summary.h"

namespace muster {

namespace {

struct Wanted {
  LogSelection selection;
  bool several = true;
};

// The attempt that is asked for, the newest otherwise.
const AttemptSummary* asked_attempt(const LogsOptions& options, const JobSummary& job) {
  const AttemptSummary* attempt = nullptr;
  for (const AttemptSummary& one : job.attempts) {
    if (!options.attempt || one.number.value == *options.attempt) attempt = &one;
  }
  return attempt;
}

// The ranks of one node, by its places in the attempt.
std::set<RankId> ranks_on(const std::string& node, const AttemptSummary* attempt,
                          const JobSummary& job, const JobSpec& spec) {
  if (attempt == nullptr) {
    throw VerbEnd(no_such_job, "job " + job.job.value + " has no such attempt");
  }
  auto ranks = ranks_of_node(spec, *attempt, NodeId{node});
  if (!ranks.empty()) return ranks;
  if (std::ranges::count(attempt->nodes, NodeId{node}) > 0) {
    throw VerbEnd(no_such_job,
                  node + " has no ranks of job " + job.job.value + " before its GPUs are counted");
  }
  throw VerbEnd(no_such_job, "attempt " + std::to_string(attempt->number.value) + " of job " +
                                 job.job.value + " did not run on " + node + "; `muster status " +
                                 job.job.value + "` shows its nodes");
}

// A number that the job does not have would wait for output that never comes.
void check_numbers(const LogsOptions& options, const JobRow& row,
                   std::optional<std::size_t> rank_count) {
  const std::string job = "job " + row.name + " has ";
  if (options.attempt && *options.attempt >= row.attempts) {
    const std::string newest = std::to_string(row.attempts - 1);
    throw VerbEnd(no_such_job,
                  job + (row.attempts == 0 ? "no attempt yet" : "attempts 0 to " + newest) +
                      ", not " + std::to_string(*options.attempt));
  }
  const auto ranks = static_cast<std::int64_t>(rank_count.value_or(0));
  if (options.rank && rank_count && *options.rank >= ranks) {
    throw VerbEnd(no_such_job, job + "ranks 0 to " + std::to_string(ranks - 1) + ", not " +
                                   std::to_string(*options.rank));
  }
}

Wanted wanted_logs(const LogsOptions& options, const FoundJob& found) {
  const auto records = or_end(found.store->records_of(found.id()), no_such_job);
  Wanted wanted;
  if (options.attempt) wanted.selection.attempt = AttemptId{*options.attempt};
  wanted.selection.tail_lines = options.tail_lines;
  const JobSubmitted* submitted = submission_in(records);
  const JobSummary job = summarize(records);
  const AttemptSummary* attempt = asked_attempt(options, job);
  const std::vector<int> processes = attempt ? attempt->processes : std::vector<int>{};
  const auto all = submitted ? rank_count(submitted->spec, processes) : std::nullopt;
  check_numbers(options, found.row, all);
  if (options.rank) {
    wanted.selection.ranks = {RankId{*options.rank}};
  } else if (!options.node.empty() && submitted != nullptr) {
    wanted.selection.ranks = ranks_on(options.node, attempt, job, submitted->spec);
  }
  wanted.several = wanted.selection.ranks ? wanted.selection.ranks->size() > 1 : all != 1;
  return wanted;
}

int print_logs(const Home& home, const JobRow& row, const Wanted& wanted,
               const CommonOptions& common) {
  const JobId job{row.name};
  const auto attempts = attempts_on_disk(home.job(job));
  LogSelection selection = wanted.selection;
  // Without an attempt named, `--tail` means the end of the newest one.
  if (selection.tail_lines && !selection.attempt && !attempts.empty()) {
    selection.attempt = *attempts.rbegin();
  }
  LogFollower follower(home.job(job), selection);
  if (!wants_table(common)) {
    LogDocument lines;
    follower.poll([&](AttemptId attempt, RankId rank, std::string_view bytes) {
      lines.feed(attempt, rank, bytes);
    });
    return print_document(lines.take(), common);
  }
  OutputMerger merger(
      {wanted.several, is_terminal(Stream::out), wants_color(common.color, Stream::out)},
      [](std::string_view bytes) { write_all(Stream::out, bytes); });
  const bool any = follower.poll(
      [&](AttemptId, RankId rank, std::string_view bytes) { merger.feed(rank, bytes); });
  merger.finish();
  if (!any) notice(row.ended_at ? "no output" : "no output yet", common);
  return 0;
}

}  // namespace

int show_logs(const LogsOptions& options, const CommonOptions& common) {
  if (options.follow && !wants_table(common)) {
    throw VerbEnd(usage_error,
                  "-f shows output as it comes and has no -o or --query; leave -f out");
  }
  const Home home = Home::from_environment();
  const auto found = job_or_end(home, options.job);
  const auto wanted = wanted_logs(options, found);
  if (!options.follow || found.row.ended_at) {
    const int printed = print_logs(home, found.row, wanted, common);
    return options.follow ? found.row.exit_code.value_or(printed) : printed;
  }
  FollowRequest request;
  request.job = found.id();
  request.logs = wanted.selection;
  if (request.logs.tail_lines && found.row.attempts > 0) {
    request.logs.first_attempt = AttemptId{found.row.attempts - 1};
  }
  request.several_ranks = wanted.several;
  return follow_job(home, request, common).exit_code;
}

void declare_log_filters(Arguments& of, LogsOptions& options, const std::string& of_attempt) {
  of.option("--rank", options.rank, "Only this rank");
  of.option("--node", options.node, "Only the ranks on this node");
  of.option("--attempt", options.attempt, of_attempt);
}

void add_logs(CommandLine& line) {
  const VerbTexts texts{"logs", "Show the output of a job's ranks"};
  line.verb<LogsOptions>(texts, show_logs, [](Arguments& of, LogsOptions& options) {
    of.job(options.job);
    of.flag("-f,--follow", options.follow,
            "Follow the output to the end of the job and return its exit code");
    declare_log_filters(of, options, "Only this attempt (they count from 0)");
    of.option("--tail", options.tail_lines, "Only the last lines of each rank");
  });
}

}  // namespace muster
