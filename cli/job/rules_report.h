// Restart rules, what they say of a log and what they would have made of recorded runs, as tables
// and as documents.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "scheduler/explain/rules_replay.h"
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

}  // namespace muster
