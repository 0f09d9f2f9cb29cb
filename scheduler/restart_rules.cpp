#include "scheduler/restart_rules.h"

#include <regex>

namespace muster {

namespace {

// Long enough for any pattern a person writes and any line worth matching.
constexpr std::size_t pattern_limit = 500;
constexpr std::size_t line_limit = 1000;

// libstdc++'s default matcher backtracks, exponentially at worst; its polynomial one does not.
std::regex::flag_type regex_flags() {
#ifdef __GLIBCXX__
  return std::regex_constants::ECMAScript | std::regex_constants::__polynomial;
#else
  return std::regex_constants::ECMAScript;
#endif
}

bool any_line_matches(const std::string& pattern, const std::vector<std::string>& lines) {
  if (pattern.size() > pattern_limit) return false;
  try {
    const std::regex regex(pattern, regex_flags());
    for (const std::string& line : lines) {
      if (std::regex_search(line.substr(0, line_limit), regex)) return true;
    }
  } catch (const std::regex_error&) {
    return false;  // the job file's checks have said so; here it can only be from an older journal
  }
  return false;
}

bool is_rank_exit(const AttemptCause& cause) {
  return !cause.status.ok();
}

bool matches(const RestartRule& rule, const AttemptCause& cause) {
  if (rule.xid) return false;  // no record carries an Xid
  const bool has_condition = rule.exit_code || rule.signal || !rule.stderr_regex.empty();
  if (!has_condition || !is_rank_exit(cause)) return false;
  if (rule.exit_code && (cause.status.signal != 0 || cause.status.code != *rule.exit_code)) {
    return false;
  }
  if (rule.signal && cause.status.signal != *rule.signal) return false;
  return rule.stderr_regex.empty() || any_line_matches(rule.stderr_regex, cause.last_lines);
}

std::string rule_text(std::size_t index, const RestartRule& rule) {
  std::string when;
  const auto add = [&](const std::string& part) { when += (when.empty() ? "" : ", ") + part; };
  if (rule.exit_code) add("exit_code " + std::to_string(*rule.exit_code));
  if (rule.signal) add("signal " + std::to_string(*rule.signal));
  if (!rule.stderr_regex.empty()) add("stderr_regex '" + rule.stderr_regex + "'");
  return "rule " + std::to_string(index + 1) + " (" + when + ")";
}

}  // namespace

RuleMatch match_rules(const MusterSettings& settings, const AttemptCause& cause) {
  RuleMatch match;
  for (std::size_t i = 0; i < settings.rules.size(); ++i) {
    const RestartRule& rule = settings.rules[i];
    if (!matches(rule, cause)) continue;
    if (!rule.enforce) {
      match.only_logged.push_back(rule_text(i, rule));
      continue;
    }
    match.rule = &rule;
    match.text = rule_text(i, rule);
    break;
  }
  return match;
}

}  // namespace muster
