// Restart rules, what they say of a log and what they would have made of recorded runs, as tables
// and as documents.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "launcher/controller/store/home.h"
#include "scheduler/explain/rules_replay.h"
#include "scheduler/model/job_spec.h"
#include "scheduler/model/result.h"
#include "scheduler/restart/rule_book.h"

namespace muster {

// [{order, id, origin, when, class, action, delay_ms, mode, cascade, advice}]
Document rules_document(const RuleBook& book);
std::string rules_table(const RuleBook& book, int width, bool color);

// {rule: null or a rule, matches: [a rule with line_number and line]}; counted in the evidence.
Document match_document(const RuleBook& book, const KnownExit& evidence);
std::string match_text(const RuleBook& book, const KnownExit& evidence);

// [{job, attempt, at, failure, rule, class, recorded, proposed, why, differs, hypothetical}]
Document replay_document(const std::vector<PolicyStep>& steps);
std::string replay_table(const std::vector<PolicyStep>& steps, int width, bool color);

// Which restart rules a person means: those of a job file with its site's, of a cluster file, of a
// recorded job, or of the site alone.

struct PolicySubject {
  std::string name;  // "job.yml", "the site"
  std::optional<std::vector<RestartRule>> job_rules;  // absent: no job is named
  std::vector<RestartRule> site_rules;
};

// Whether a person means a file rather than a job.
bool names_file(const std::string& typed);

// `file` empty: the site. Prints the findings of what it reads; an Error when there is one that
// stops.
Result<PolicySubject> policy_of_file(const std::string& file, const CommonOptions& common);

// As the job was queued.
Result<PolicySubject> policy_of_job(const Home& home, const std::string& typed);

// Those rules alone, everything else as a job has it by default.
MusterSettings settings_of(const PolicySubject& subject);

}  // namespace muster
