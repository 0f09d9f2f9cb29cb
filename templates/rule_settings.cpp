// `muster.rules`: reactions to failures that the user knows better than muster.
#include <regex>

#include "templates/setting_table.h"
#include "templates/spelling.h"

namespace muster {
namespace {

constexpr std::size_t most_rules = 100;
// Matched against every line of stderr; a long one could only be a mistake.
constexpr std::size_t longest_regex = 512;

void read_regex(const Value& value, RestartRule& rule) {
  const auto text = value.text();
  if (!text) return;
  rule.stderr_regex = *text;
  if (text->size() > longest_regex) {
    value.error("expected at most " + std::to_string(longest_regex) + " characters");
    return;
  }
  try {
    const std::regex compiled(*text, std::regex::ECMAScript);
  } catch (const std::regex_error&) {
    value.error("not a regular expression: " + quoted(*text));
  }
}

void read_condition(const Value& value, RestartRule& rule) {
  MapReader when(value);
  rule.exit_code = when.take("exit_code").integer(0, 255);
  rule.signal = when.take("signal").integer(1, 64);
  read_regex(when.take("stderr_regex"), rule);
  rule.xid = when.take("xid").integer(1, 100000);
  when.finish();
  const bool any = rule.exit_code || rule.signal || rule.xid || !rule.stderr_regex.empty();
  if (value.is_map() && value.node().entries.empty() && !any) {
    value.error("expected at least one of exit_code, signal, stderr_regex and xid");
  }
}

RestartRule read_rule(const Value& value) {
  RestartRule rule;
  MapReader map(value);
  read_condition(map.require("when"), rule);
  rule.failure_class =
      map.take("class").choice<FailureClass>({{"user", FailureClass::user},
                                              {"infra", FailureClass::infra},
                                              {"hw", FailureClass::hw},
                                              {"hang", FailureClass::hang},
                                              {"sdc", FailureClass::sdc},
                                              {"preempted", FailureClass::preempted}});
  rule.action = map.take("action").choice<Reaction>({{"retry", Reaction::retry},
                                                     {"backoff", Reaction::backoff},
                                                     {"stop", Reaction::stop},
                                                     {"exclude_node", Reaction::exclude_node}});
  rule.enforce = map.take("mode").choice<bool>({{"log", false}, {"enforce", true}}).value_or(true);
  map.finish();
  if (value.is_map() && !value.node().find("class") && !value.node().find("action")) {
    value.error("expected 'class' or 'action'");
  }
  return rule;
}

}  // namespace

void read_rules(const Value& value, JobSpec& spec) {
  const std::vector<Value> rules = value.list();
  if (rules.size() > most_rules) {
    value.error("expected at most " + std::to_string(most_rules) + " rules");
    return;
  }
  for (const Value& each : rules) spec.muster.rules.push_back(read_rule(each));
}

}  // namespace muster
