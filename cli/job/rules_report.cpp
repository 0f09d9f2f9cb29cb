#include "cli/job/rules_report.h"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/client/targets.h"
#include "cli/job/check.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/files.h"
#include "cli/terminal/table.h"
#include "scheduler/model/names.h"
#include "scheduler/state/sentences.h"
#include "scheduler/text/duration.h"
#include "templates/cluster/file.h"

namespace muster {

namespace {

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
  std::string text = "rule " + rule.id + " (" + std::string(word(entry.origin)) + ")";
  if (!rule.enforce) text += " only logs";
  text += ": " + reaction_text(rule);
  return text + (rule.advice.empty() ? "" : ": " + rule.advice);
}

const RuleHit* deciding(const std::vector<RuleHit>& hits) {
  const auto found = std::find_if(hits.begin(), hits.end(),
                                  [](const RuleHit& hit) { return hit.entry->rule.enforce; });
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

Result<std::vector<RestartRule>> rules_of_site(const CommonOptions& common) {
  auto known = find_targets(common);
  if (!known) return known.error();
  print_findings(known->findings, common);
  if (has_errors(known->findings)) return Error{"the cluster files have errors"};
  return std::move(known->rules);
}

std::vector<RestartRule> rules_of_cluster(const std::string& path, const std::string& text) {
  ReadOptions options;
  options.files = real_files();
  return read_cluster_file(path, text, options).rules;
}

}  // namespace

Document rules_document(const RuleBook& book) {
  Document out = Document::array();
  for (const RuleEntry* entry : book.entries()) {
    Document rule{{"order", out.size() + 1}};
    rule.update(rule_document(*entry));
    out.push_back(std::move(rule));
  }
  return out;
}

std::string rules_table(const RuleBook& book, int width, bool color) {
  Table table({"RULE", "FROM", "MODE", "THEN", "ADVICE", "WHEN"});
  for (const RuleEntry* entry : book.entries()) {
    const RestartRule& rule = entry->rule;
    table.add({rule.id, std::string(word(entry->origin)), rule.enforce ? "enforce" : "log",
               reaction_text(rule), rule.advice, condition_text(rule)});
  }
  return table.text(width, color);
}

Document match_document(const RuleBook& book, const KnownExit& evidence) {
  const auto hits = book.hits(evidence);
  const RuleHit* first = deciding(hits);
  Document out{{"rule", first ? rule_document(*first->entry) : Document(nullptr)}};
  out["matches"] = Document::array();
  for (const RuleHit& hit : hits) {
    Document one = rule_document(*hit.entry);
    one["line_number"] = hit.line ? Document(*hit.line + 1) : Document(nullptr);
    one["line"] = hit.line ? Document(evidence.last_lines[*hit.line]) : Document(nullptr);
    out["matches"].push_back(std::move(one));
  }
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

Document replay_document(const std::vector<PolicyStep>& steps) {
  Document out = Document::array();
  for (const PolicyStep& step : steps) {
    const auto& rule = step.cause.rules.rule;
    out.push_back(Document{{"job", step.job.value},
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
                           {"hypothetical", step.hypothetical}});
  }
  return out;
}

std::string replay_table(const std::vector<PolicyStep>& steps, int width, bool color) {
  Table table({"JOB", "ATTEMPT", "FAILURE", "RULE", "RECORDED", "PROPOSED", ""});
  for (const PolicyStep& step : steps) {
    table.add({step.job.value, std::to_string(step.attempt.value), step.cause.sentence,
               rule_of(step), step.recorded, step.proposed, verdict_of(step)});
  }
  return table.text(width, color);
}

bool names_file(const std::string& typed) {
  std::error_code ignored;
  return typed.find('/') != typed.npos || typed.ends_with(".yml") || typed.ends_with(".yaml") ||
         std::filesystem::is_regular_file(typed, ignored);
}

Result<PolicySubject> policy_of_file(const std::string& file, const CommonOptions& common) {
  if (file.empty()) {
    auto site = rules_of_site(common);
    if (!site) return site.error();
    return PolicySubject{"the site", std::nullopt, std::move(*site)};
  }
  CheckRequest request;
  request.path = file;
  request.for_running = false;
  auto checked = check_job(request, common);
  if (!checked) return checked.error();
  print_findings(checked->file.findings, common);
  if (has_errors(checked->file.findings)) return Error{file + " has errors"};
  if (checked->file.kind == FileKind::cluster) {
    return PolicySubject{file, std::nullopt, rules_of_cluster(file, checked->text)};
  }
  if (checked->file.kind != FileKind::command) {
    return Error{file + " holds no restart rules: expected a command job or a cluster file"};
  }
  auto site = rules_of_site(common);
  if (!site) return site.error();
  return PolicySubject{file, checked->file.spec.muster.rules, std::move(*site)};
}

Result<PolicySubject> policy_of_job(const Home& home, const std::string& typed) {
  const auto found = open_job(home, typed);
  if (!found) return found.error();
  const auto records = found->store->records_of(found->id());
  if (!records) return records.error();
  for (const Record& record : *records) {
    const auto* observed = std::get_if<Observation>(&record.what);
    const auto* submitted = observed ? std::get_if<JobSubmitted>(observed) : nullptr;
    if (!submitted) continue;
    const MusterSettings& settings = submitted->spec.muster;
    return PolicySubject{found->row.name, settings.rules, settings.site_rules};
  }
  return Error{"the journal does not hold the submission of job " + found->row.name};
}

MusterSettings settings_of(const PolicySubject& subject) {
  MusterSettings settings;
  settings.rules = subject.job_rules.value_or(std::vector<RestartRule>{});
  settings.site_rules = subject.site_rules;
  return settings;
}

}  // namespace muster
