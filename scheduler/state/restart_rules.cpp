#include "scheduler/state/restart_rules.h"

#include "scheduler/model/names.h"

namespace muster {

std::string rule_name(const MatchedRule& rule) {
  return "rule " + rule.id + " (" + std::string(word(rule.origin)) + ")";
}

std::string said_by_rules(const AttemptCause& cause) {
  const auto& rule = cause.rules.rule;
  std::string text = rule ? rule_name(*rule) + ": " : "";
  text += "class " + std::string(word(cause.failure_class));
  for (const std::string& id : cause.rules.only_logged) text += "; rule " + id + " only logs";
  return text;
}

std::string advice_of(const AttemptCause& cause) {
  const auto& rule = cause.rules.rule;
  return rule && !rule->advice.empty() ? ": " + rule->advice : "";
}

bool casts_doubt(const AttemptCause& cause) {
  if (cause.succeeded) return false;
  if (cause.failure_class == FailureClass::sdc) return true;
  const auto& rule = cause.rules.rule;
  const bool built_in = rule && rule->origin == RuleOrigin::built_in;
  return cause.failure_class == FailureClass::hw && built_in &&
         (rule->id == "gpu-ecc" || rule->id == "gpu-xid-memory");
}

std::string doubt_text(const AttemptCause& cause) {
  return cause.sentence + " (class " + std::string(word(cause.failure_class)) +
         "), so what was saved may be wrong";
}

}  // namespace muster
