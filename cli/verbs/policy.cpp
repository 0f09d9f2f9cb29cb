// `muster policy show|test`: the restart rules in force, what they say of a log, and what they
// would have made of the recorded runs. Starts, queues and changes nothing.
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/client/find.h"
#include "cli/client/log_follower.h"
#include "cli/job/rules_report.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/os/read_file.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

struct PolicyTestOptions {
  std::vector<std::string> names;
  std::string log;
  std::optional<std::int64_t> exit_code;
  std::string signal;
  bool replay = false;
};

int table_width() {
  return is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
}

int show_policy(const std::string& typed, const CommonOptions& common) {
  const bool of_file = typed.empty() || names_file(typed);
  const auto subject =
      of_file ? policy_of_file(typed, common) : policy_of_job(Home::from_environment(), typed);
  if (!subject) {
    return complain(subject.error().message, of_file ? invalid_file : no_such_job, common);
  }
  const RuleBook book(settings_of(*subject));
  if (!wants_table(common)) return print_document(rules_document(book), common);
  write_all(Stream::out, rules_table(book, table_width(), wants_color(common.color, Stream::out)));
  return 0;
}

// ---- a log --------------------------------------------------------------------------------------

std::optional<int> signal_number(const std::string& text) {
  constexpr int last_signal = 64;
  for (int number = 1; number <= last_signal; ++number) {
    const std::string name = signal_name(number);
    const bool named = name.starts_with("SIG") && (text == name || text == name.substr(3));
    if (named || text == std::to_string(number)) return number;
  }
  return std::nullopt;
}

Result<ExitStatus> status_of(const PolicyTestOptions& options) {
  constexpr std::int64_t last_code = 255;
  if (!options.signal.empty()) {
    if (options.exit_code) return Error{"give --exit-code or --signal, not both"};
    const auto number = signal_number(options.signal);
    if (number) return ExitStatus{0, *number};
    return Error{"--signal: unknown signal '" + options.signal + "'; write SIGTERM or 15"};
  }
  const std::int64_t code = options.exit_code.value_or(1);
  if (code >= 1 && code <= last_code) return ExitStatus{static_cast<int>(code), 0};
  return Error{"--exit-code: expected 1 to 255, got " + std::to_string(code)};
}

Result<std::vector<std::string>> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  if (path.empty()) return lines;
  if (const auto log = open_regular_file(path); !log) return log.error();
  std::istringstream text(last_lines_of_file(path, evidence_lines));
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

int test_log(const PolicyTestOptions& options, const CommonOptions& common) {
  if (options.names.size() > 1) return complain("one FILE goes with --log", usage_error, common);
  const auto status = status_of(options);
  if (!status) return complain(status.error().message, usage_error, common);
  const auto lines = lines_of(options.log);
  if (!lines) return complain(lines.error().message, no_such_job, common);
  const auto subject = policy_of_file(options.names.empty() ? "" : options.names.front(), common);
  if (!subject) return complain(subject.error().message, invalid_file, common);
  const RuleBook book(settings_of(*subject));
  const KnownExit evidence{*status, *lines};
  if (!wants_table(common)) return print_document(match_document(book, evidence), common);
  write_all(Stream::out, match_text(book, evidence));
  return 0;
}

// ---- recorded runs ------------------------------------------------------------------------------

Result<std::vector<JobId>> jobs_to_replay(const Store& store,
                                          const std::vector<std::string>& typed) {
  std::vector<JobId> jobs;
  for (const std::string& name : typed) {
    const auto row = find_job(store, name);
    if (!row) return row.error();
    jobs.push_back(JobId{row->name});
  }
  if (!typed.empty()) return jobs;
  JobFilter filter;
  filter.limit.reset();
  filter.include_archived = true;
  const auto rows = store.jobs(filter);
  if (!rows) return rows.error();
  for (const JobRow& row : *rows) jobs.push_back(JobId{row.name});
  return jobs;
}

OtherPolicy other_policy(const PolicySubject& subject) {
  OtherPolicy policy;
  policy.change = [&subject](MusterSettings& settings) {
    if (subject.job_rules) settings.rules = *subject.job_rules;
    settings.site_rules = subject.site_rules;
  };
  policy.judge = [](const MusterSettings& settings, const RankExited& exit) {
    return judge_exit(settings, known_exit(exit));
  };
  return policy;
}

int replay_jobs(const PolicySubject& subject, const std::vector<std::string>& typed,
                const CommonOptions& common) {
  const auto store = Store::open(Home::from_environment().root, Store::Mode::read_only);
  if (!store) return complain(store.error().message, internal_error, common);
  const auto jobs = jobs_to_replay(**store, typed);
  if (!jobs) return complain(jobs.error().message, no_such_job, common);
  const OtherPolicy policy = other_policy(subject);
  std::vector<PolicyStep> steps;
  for (const JobId& job : *jobs) {
    const auto records = (*store)->records_of(job);
    if (!records) return complain(records.error().message, internal_error, common);
    for (PolicyStep& step : replay_policy(*records, policy)) steps.push_back(std::move(step));
  }
  if (!wants_table(common)) return print_document(replay_document(steps), common);
  if (steps.empty()) notice("no attempt of these jobs ended because a rank failed", common);
  const bool color = wants_color(common.color, Stream::out);
  if (!steps.empty()) write_all(Stream::out, replay_table(steps, table_width(), color));
  return 0;
}

int test_replay(const PolicyTestOptions& options, const CommonOptions& common) {
  std::string file;
  std::vector<std::string> jobs;
  for (const std::string& name : options.names) {
    if (!names_file(name)) {
      jobs.push_back(name);
    } else if (file.empty()) {
      file = name;
    } else {
      return complain("two files: " + file + " and " + name, usage_error, common);
    }
  }
  const auto subject = policy_of_file(file, common);
  if (!subject) return complain(subject.error().message, invalid_file, common);
  return replay_jobs(*subject, jobs, common);
}

int test_policy(const PolicyTestOptions& options, const CommonOptions& common) {
  const bool of_exit = !options.log.empty() || options.exit_code || !options.signal.empty();
  if (of_exit == options.replay) {
    return complain("say what to test: --log LOG, --exit-code N or --signal S; or --replay",
                    usage_error, common);
  }
  return options.replay ? test_replay(options, common) : test_log(options, common);
}

}  // namespace

void add_policy(CommandLine& line) {
  line.group({"policy", "What is done about failures: the restart rules"});
  line.verb_of("policy", {"show", "Print the rules in force, in the order they are tried"},
               [](Arguments& of) {
                 auto name = std::make_shared<std::string>();
                 of.optional_argument("FILE", *name,
                                      "Job file, cluster file or job; default: the site");
                 return [name](const CommonOptions& common) { return show_policy(*name, common); };
               });
  line.verb_of(
      "policy", {"test", "Try rules on a log, or on the recorded runs"}, [](Arguments& of) {
        auto options = std::make_shared<PolicyTestOptions>();
        of.several("FILE", options->names,
                   "Job or cluster file whose rules to try; with --replay also jobs");
        of.option("--log", options->log, "Output of a failed rank: its end counts");
        of.option("--exit-code", options->exit_code, "How it ended, default 1");
        of.option("--signal", options->signal, "How it ended: SIGSEGV or 11");
        of.flag("--replay", options->replay,
                "What the rules would have made of recorded jobs, default all");
        return [options](const CommonOptions& common) { return test_policy(*options, common); };
      });
}

}  // namespace muster
