// `muster policy show|test`: the restart rules in force, what they say of a log, and what they
// would have made of the recorded runs. Starts, queues and changes nothing.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cli/client/find.h"
#include "cli/client/log_follower.h"
#include "cli/client/targets.h"
#include "cli/job/submission.h"
#include "cli/terminal/document.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/table.h"
#include "cli/verbs/verbs.h"
#include "launcher/controller/store/store.h"
#include "launcher/os/child.h"
#include "launcher/os/read_file.h"
#include "scheduler/explain/rules_replay.h"
#include "scheduler/model/names.h"
#include "scheduler/restart/rule_book.h"
#include "scheduler/state/sentences.h"
#include "scheduler/text/duration.h"
#include "templates/cluster/file.h"

namespace muster {

namespace {

// Which restart rules a person means: those of a job file with its site's, of a cluster file, of a
// recorded job, or of the site alone.
struct PolicySubject {
  std::optional<std::vector<RestartRule>> job_rules;  // absent: no job is named
  std::vector<RestartRule> site_rules;
};

template <class Enum>
Document word_or_null(const std::optional<Enum>& value) {
  return value ? Document(std::string(word(*value))) : Document(nullptr);
}

Document rule_document(const RuleEntry& entry) {
  const RestartRule& rule = entry.rule;
  return Document{{"id", rule.id},
                  {"origin", std::string(word(entry.origin))},
                  {"when", condition_text(rule)},
                  {"class", word_or_null(rule.failure_class)},
                  {"action", word_or_null(rule.action)},
                  {"delay_ms", rule.delay ? Document(rule.delay->count()) : Document(nullptr)},
                  {"mode", rule.enforce ? "enforce" : "log"},
                  {"cascade", rule.cascade},
                  {"advice", rule.advice}};
}

std::string reaction_text(const RestartRule& rule) {
  std::string text;
  if (rule.failure_class) text = "class " + std::string(word(*rule.failure_class));
  if (rule.action) text += (text.empty() ? "" : ": ") + std::string(word(*rule.action));
  if (rule.delay) text += " after " + duration_text(*rule.delay);
  return text;
}

std::string heading_of(const RuleEntry& entry) {
  const RestartRule& rule = entry.rule;
  return "rule " + rule.id + " (" + std::string(word(entry.origin)) + ")" +
         (rule.enforce ? "" : " only logs") + ": " + reaction_text(rule) +
         (rule.advice.empty() ? "" : ": " + rule.advice);
}

const RuleHit* deciding(const std::vector<RuleHit>& hits) {
  const auto found =
      std::ranges::find_if(hits, [](const RuleHit& hit) { return hit.entry->rule.enforce; });
  return found == hits.end() ? nullptr : &*found;
}

std::string rule_of(const PolicyStep& step) {
  const auto& rule = step.cause.rules.rule;
  return rule ? rule_name(*rule).substr(5) : "";
}

std::string verdict_of(const PolicyStep& step) {
  if (step.recorded.empty()) return "undecided";
  if (step.hypothetical) return "hypothetical";
  return step.differs ? "differs" : "same";
}

std::vector<RestartRule> rules_of_site(const CommonOptions& common) {
  KnownTargets known = or_end(find_targets(common), invalid_file);
  print_findings(known.findings, common);
  if (has_errors(known.findings)) throw VerbEnd(invalid_file, "the cluster files have errors");
  return std::move(known.rules);
}

// [{order, id, origin, when, class, action, delay_ms, mode, cascade, advice}]
Document rules_document(const RuleBook& book) {
  return list_of(book.entries(), [order = 0](const RuleEntry* entry) mutable {
    Document rule{{"order", ++order}};
    rule.update(rule_document(*entry));
    return rule;
  });
}

Table rules_table(const RuleBook& book) {
  Table table({"RULE", "FROM", "MODE", "THEN", "ADVICE", "WHEN"});
  for (const RuleEntry* entry : book.entries()) {
    const RestartRule& rule = entry->rule;
    table.add({rule.id, std::string(word(entry->origin)), rule.enforce ? "enforce" : "log",
               reaction_text(rule), rule.advice, condition_text(rule)});
  }
  return table;
}

// {rule: null or a rule, matches: [a rule with line_number and line]}; counted in the evidence.
Document match_document(const RuleBook& book, const KnownExit& evidence) {
  const auto hits = book.hits(evidence);
  const RuleHit* first = deciding(hits);
  Document out{{"rule", first ? rule_document(*first->entry) : Document(nullptr)}};
  out["matches"] = list_of(hits, [&](const RuleHit& hit) {
    Document one = rule_document(*hit.entry);
    one["line_number"] = hit.line ? Document(*hit.line + 1) : Document(nullptr);
    one["line"] = hit.line ? Document(evidence.last_lines[*hit.line]) : Document(nullptr);
    return one;
  });
  return out;
}

std::string match_text(const RuleBook& book, const KnownExit& evidence) {
  const auto hits = book.hits(evidence);
  const RuleHit* first = deciding(hits);
  std::string text = first ? heading_of(*first->entry) + "\n" : "no rule decides: the class does\n";
  if (first && first->line) text += "  | " + printable(evidence.last_lines[*first->line]) + "\n";
  for (const RuleHit& hit : hits) {
    if (&hit != first) text += "holds too: " + heading_of(*hit.entry) + "\n";
  }
  return text;
}

// [{job, attempt, at, failure, rule, class, recorded, proposed, why, differs, hypothetical}]
Document replay_document(const std::vector<PolicyStep>& steps) {
  return list_of(steps, [](const PolicyStep& step) {
    const auto& rule = step.cause.rules.rule;
    return Document{{"job", step.job.value},
                    {"attempt", step.attempt.value},
                    {"at", utc_text(step.at)},
                    {"failure", step.cause.sentence},
                    {"rule", rule ? Document(rule->id) : Document(nullptr)},
                    {"only_logged", step.cause.rules.only_logged},
                    {"class", std::string(word(step.cause.failure_class))},
                    {"recorded", step.recorded},
                    {"proposed", step.proposed},
                    {"why", step.why},
                    {"differs", step.differs},
                    {"hypothetical", step.hypothetical}};
  });
}

Table replay_table(const std::vector<PolicyStep>& steps) {
  Table table({"JOB", "ATTEMPT", "FAILURE", "RULE", "RECORDED", "PROPOSED", ""});
  for (const PolicyStep& step : steps) {
    table.add({step.job.value, std::to_string(step.attempt.value), step.cause.sentence,
               rule_of(step), step.recorded, step.proposed, verdict_of(step)});
  }
  return table;
}

// Whether a person means a file rather than a job.
bool means_file(const std::string& typed) {
  std::error_code ignored;
  return typed.find('/') != typed.npos || typed.ends_with(".yml") || typed.ends_with(".yaml") ||
         std::filesystem::is_regular_file(typed, ignored);
}

// `file` empty: the site. Prints the findings of what it reads; one that stops ends the verb.
PolicySubject policy_of_file(const std::string& file, const CommonOptions& common) {
  if (file.empty()) return {std::nullopt, rules_of_site(common)};
  const CheckedJob checked =
      or_end(check_job({.path = file, .sets = {}, .for_running = false}, common), invalid_file);
  print_findings(checked.file.findings, common);
  if (has_errors(checked.file.findings)) throw VerbEnd(invalid_file, file + " has errors");
  if (checked.file.kind == FileKind::cluster) {
    return {std::nullopt, read_cluster_file(file, checked.text, read_options({})).rules};
  }
  if (checked.file.kind != FileKind::command) {
    throw VerbEnd(invalid_file,
                  file + " holds no restart rules: expected a command job or a cluster file");
  }
  return {checked.file.spec.muster.rules, rules_of_site(common)};
}

// As the job was queued.
PolicySubject policy_of_job(const Home& home, const std::string& typed) {
  const auto found = or_end(open_job(home, typed), no_such_job);
  const auto records = or_end(found.store->records_of(found.id()), no_such_job);
  if (const JobSubmitted* submitted = submission_in(records)) {
    return {submitted->spec.muster.rules, submitted->spec.muster.site_rules};
  }
  throw VerbEnd(no_such_job, "the journal does not hold the submission of job " + found.row.name);
}

// Those rules alone, everything else as a job has it by default.
MusterSettings settings_of(const PolicySubject& subject) {
  MusterSettings settings;
  settings.rules = subject.job_rules.value_or(std::vector<RestartRule>{});
  settings.site_rules = subject.site_rules;
  return settings;
}

// ---- the verbs

struct PolicyTestOptions {
  std::vector<std::string> names;
  std::string log;
  std::optional<std::int64_t> exit_code;
  std::string signal;
  bool replay = false;
};

int show_policy(const std::string& typed, const CommonOptions& common) {
  const bool of_file = typed.empty() || means_file(typed);
  const RuleBook book(settings_of(of_file ? policy_of_file(typed, common)
                                          : policy_of_job(Home::from_environment(), typed)));
  return print_result(rules_document(book), rules_table(book).text(common), common);
}

// ---- a log --------------------------------------------------------------------------------------

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

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  if (path.empty()) return lines;
  or_end(open_regular_file(path), no_such_job);
  std::istringstream text(last_lines_of_file(path, evidence_lines));
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

int test_log(const PolicyTestOptions& options, const CommonOptions& common) {
  if (options.names.size() > 1) throw VerbEnd(usage_error, "one FILE goes with --log");
  const auto status = or_end(status_of(options), usage_error);
  const auto lines = lines_of(options.log);
  const auto subject = policy_of_file(options.names.empty() ? "" : options.names.front(), common);
  const RuleBook book(settings_of(subject));
  const KnownExit evidence{status, lines};
  return print_result(match_document(book, evidence), match_text(book, evidence), common);
}

// ---- recorded runs ------------------------------------------------------------------------------

std::vector<JobRow> jobs_to_replay(const Store& store, const std::vector<std::string>& typed) {
  std::vector<JobRow> jobs;
  for (const std::string& name : typed) jobs.push_back(or_end(find_job(store, name), no_such_job));
  if (!typed.empty()) return jobs;
  JobFilter filter;
  filter.limit.reset();
  filter.include_archived = true;
  return or_end(store.jobs(filter), no_such_job);
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
  const auto store = or_end(Store::open(Home::from_environment().root, Store::Mode::read_only));
  const OtherPolicy policy = other_policy(subject);
  std::vector<PolicyStep> steps;
  for (const JobRow& job : jobs_to_replay(*store, typed)) {
    const auto records = or_end(store->records_of(JobId{job.name}));
    for (PolicyStep& step : replay_policy(records, policy)) steps.push_back(std::move(step));
  }
  return print_result(replay_document(steps), steps.empty() ? "" : replay_table(steps).text(common),
                      common, "no attempt of these jobs ended because a rank failed");
}

int test_replay(const PolicyTestOptions& options, const CommonOptions& common) {
  std::string file;
  std::vector<std::string> jobs;
  for (const std::string& name : options.names) {
    if (!means_file(name)) {
      jobs.push_back(name);
    } else if (file.empty()) {
      file = name;
    } else {
      throw VerbEnd(usage_error, "two files: " + file + " and " + name);
    }
  }
  return replay_jobs(policy_of_file(file, common), jobs, common);
}

int test_policy(const PolicyTestOptions& options, const CommonOptions& common) {
  const bool of_exit = !options.log.empty() || options.exit_code || !options.signal.empty();
  if (of_exit == options.replay) {
    throw VerbEnd(usage_error,
                  "say what to test: --log LOG, --exit-code N or --signal S; or --replay");
  }
  return options.replay ? test_replay(options, common) : test_log(options, common);
}

}  // namespace

void add_policy(CommandLine& line) {
  line.group({"policy", "Show and test the restart rules"});
  line.verb_of<std::string>(
      "policy", {"show", "Print the rules in force, in the order they are tried"}, show_policy,
      [](Arguments& of, std::string& name) {
        of.optional_argument("FILE", name, "Job file, cluster file or job; default: the site");
      });
  line.verb_of<PolicyTestOptions>(
      "policy", {"test", "Try rules on a log, or on the recorded runs"}, test_policy,
      [](Arguments& of, PolicyTestOptions& options) {
        of.several("FILE", options.names,
                   "Job or cluster file whose rules to try; with --replay also jobs");
        of.option("--log", options.log, "Log of a failed rank; its last lines are matched");
        of.option("--exit-code", options.exit_code, "Exit code of the rank, default 1");
        of.option("--signal", options.signal, "Signal that killed the rank: SIGSEGV or 11");
        of.flag("--replay", options.replay,
                "Show what the rules would have done with recorded jobs, default all");
      });
}

}  // namespace muster
